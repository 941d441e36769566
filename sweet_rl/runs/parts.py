"""The work of one run done by several processes, each with a shard of it and, on GPUs, with GPUs of its own."""

from __future__ import annotations

import glob
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import wait

from sweet_rl.cli.process import redact_output
from sweet_rl.errors import UserError
from sweet_rl.records import scan_rows
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
        processes.append(context.Process(target=_part, args=arguments, daemon=True))
        processes[-1].start()
    for process in processes:
        process.join()
    failed = [f"{number}/{count}" for number, process in enumerate(processes, 1) if process.exitcode]
    if failed:
        raise UserError(
            f"{run.path}: the processes of the parts {', '.join(failed)} failed (see above); the others are complete. "
            "Give the same command again to continue."
        )
    run.write_missing(row for path in outputs for _, _, row in scan_rows(path))
    for path in run.path.parent.glob(f"{glob.escape(run.path.name)}.part-*"):
        path.unlink()


def _part(work: Work, output_path: str, shard: str, environment: Mapping[str, str]) -> None:
    os.environ.update(environment)
    redact_output()
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


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
    os._exit(1)
