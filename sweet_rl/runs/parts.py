"""The work of one run done by several processes, each with a shard of it and, on GPUs, with GPUs of its own."""

from __future__ import annotations

import glob
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess

from sweet_rl.runs.cli.process import redact_output
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import read_manifest
from sweet_rl.runs.records import scan_rows
from sweet_rl.runs.run import Run

Work = Callable[[str, str], object]
"""(path of the part's output, its shard "i/n") -> anything; the output is continued if it exists."""


def run_parts(run: Run, work: Work, environments: Sequence[Mapping[str, str]]) -> None:
    """Do `work` in one process for each of `environments`, then append the records of all parts to `run`, in order.

    The parts' outputs lie beside that of the run until all are complete, so a killed run continues where it was.

    Args:
        run: the open output of the whole.
        work: can be pickled.
        environments: variables of each process, for example its CUDA_VISIBLE_DEVICES.

    Raises:
        UserError: a part failed; it has printed why. The others are complete.
    """
    count = len(environments)
    outputs = [run.path.with_name(f"{run.path.name}.part-{number}-of-{count}") for number in range(1, count + 1)]
    context = multiprocessing.get_context("spawn")
    processes = []
    for number, (path, environment) in enumerate(zip(outputs, environments, strict=True), 1):
        quiet = {} if number == 1 else {"TQDM_DISABLE": "1"}  # the first part shows the progress
        arguments = (work, str(path), f"{number}/{count}", {**environment, **quiet})
        processes.append(context.Process(target=_part, args=arguments))  # no daemon: vLLM starts processes of its own
    try:
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    except BaseException:
        end_processes(processes)
        raise
    failed = [f"{number}/{count}" for number, process in enumerate(processes, 1) if process.exitcode]
    if failed:
        raise UserError(
            f"{run.path}: the processes of the parts {', '.join(failed)} failed (see above); the others are complete. "
            "Give the same command again to continue."
        )
    inputs = sorted(run.manifest.content["inputs"].values())
    if any(sorted((read_manifest(path) or {"inputs": {}})["inputs"].values()) != inputs for path in outputs):
        raise UserError(f"{run.path}: an input was replaced while its parts read it. Give --overwrite.")
    run.write_missing(row for path in outputs for _, _, row in scan_rows(path))
    for path in run.path.parent.glob(f"{glob.escape(run.path.name)}.part-*"):
        path.unlink()


def _part(work: Work, output_path: str, shard: str, environment: Mapping[str, str]) -> None:
    os.environ.update(environment)
    redact_output()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that `finally` below is reached
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        work(output_path, shard)
    except UserError as error:
        print(f"error: part {shard}: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception:
        sys.excepthook(*sys.exc_info())
        sys.exit(1)
    finally:
        end_processes(multiprocessing.active_children())  # a process waits for them at its end, a vLLM engine for ever


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
    for child in multiprocessing.active_children():
        child.terminate()
    os._exit(1)


def end_processes(processes: Sequence[BaseProcess], seconds: float = 10.0) -> None:
    """End those that run: by SIGTERM, and after `seconds` by SIGKILL."""
    running = [process for process in processes if process.is_alive()]
    for process in running:
        process.terminate()
    deadline = time.monotonic() + seconds
    for process in running:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()
