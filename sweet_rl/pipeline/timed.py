"""Run one command as a step of a pipeline: never twice at the same time, on GPUs of its own, with a clock.

    python -m sweet_rl.pipeline.timed --name NAME --output FILE --log FILE --times FILE [--gpus N] -- COMMAND...

It outlives the engine that started it. The log is locked as long as the command runs, even if this process is killed,
so that a second start of the step waits for the first. What the step took is appended to the times file as one line.
Environment variables in the command are filled in on the machine that runs it.
"""

import argparse
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sweet_rl.errors import UserError
from sweet_rl.runs.locks import lock_file, lock_gpus


def main(words: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status; 128 + N if signal N ended it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for flag, text in FLAGS.items():
        parser.add_argument(flag, required=True, help=text)
    parser.add_argument("--gpus", type=int, default=0, help="GPUs that it takes")
    parser.add_argument("--pool", default="", help="the GPUs that all steps share; none is locked without it")
    parser.add_argument("command", nargs="+")
    step = parser.parse_args(words)
    log = lock_file(step.log)
    os.write(log, f"$ {shlex.join(step.command)}\n".encode())
    gpus = lock_gpus(step.gpus, step.pool.split(",")) if step.pool and step.gpus else {}
    environment = os.environ | ({"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {})
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    words = list(map(os.path.expandvars, step.command))
    status = subprocess.call(words, stdout=log, stderr=log, pass_fds=list(gpus.values()), env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    row = {
        "step": step.name, "output": step.output, "seconds": round(time.monotonic() - started, 3),
        "user_seconds": round(after.ru_utime - before.ru_utime, 3),
        "system_seconds": round(after.ru_stime - before.ru_stime, 3),
        "gpus": step.gpus, "status": status, "command": shlex.join(step.command),
    }  # fmt: skip
    times = lock_file(step.times)
    os.write(times, (json.dumps(row) + "\n").encode())
    for lock in (times, log, *gpus.values()):
        os.close(lock)
    return status if status >= 0 else 128 - status


def read_times(files: Iterable[str | Path]) -> Iterator[dict[str, Any]]:
    """The rows {step, output, command, status, seconds, cpu_seconds, gpu_seconds} of times files, as they were written.

    Raises UserError naming a line that is none of `main`.
    """
    for file in files:
        for number, line in enumerate(Path(file).read_text(encoding="utf-8").splitlines(), start=1):
            try:
                row = json.loads(line)
                kept = {name: row[name] for name in ("step", "command", "status", "seconds")}
                kept |= {"output": str(row["output"]), "cpu_seconds": row["user_seconds"] + row["system_seconds"]}
                kept["gpu_seconds"] = row["seconds"] * row["gpus"]
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(f"{file}, line {number}: not a step's times ({error}). Remove the line.") from error
            yield kept


def first_successes(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(resolved output, row) of each output's runs up to its first success. Later runs found it complete."""
    done: set[str] = set()
    for row in rows:
        output = str(Path(row["output"]).resolve())
        if row["output"] and output not in done:
            yield output, row
            if row["status"] == 0:
                done.add(output)


FLAGS = {
    "--name": "what the step is called",
    "--output": "what it makes",
    "--log": "file that its output is appended to",
    "--times": "file that its cost is appended to",
}

if __name__ == "__main__":
    signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C ends the command, whose cost is still to be noted
    sys.exit(main())
