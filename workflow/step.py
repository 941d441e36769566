"""Runs the command of one step: never twice at the same time, on GPUs of its own, with a clock.

    python workflow/step.py --name NAME --output FILE --log FILE --times FILE [--gpus N --pool 0,1,2] -- COMMAND...

It outlives the engine that started it. The log is locked as long as the command runs, even if this process is killed: a
second start of the step waits for the first. A line of what the step cost is appended to the times file.
"""

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import time

from sweet_rl.runs.locks import lock_file, lock_gpus


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for flag in ("--name", "--output", "--log", "--times"):
        parser.add_argument(flag, required=True)
    parser.add_argument("--gpus", type=int, default=0)
    parser.add_argument("--pool", default="", help="GPUs of this machine, shared by all steps; default: no lock on any")
    parser.add_argument("command", nargs="+")
    step = parser.parse_args()
    log = lock_file(step.log)
    os.write(log, f"$ {shlex.join(step.command)}\n".encode())
    gpus = lock_gpus(step.gpus, step.pool.split(",")) if step.pool and step.gpus else {}
    environment = os.environ | ({"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {})
    started, words = time.monotonic(), map(os.path.expandvars, step.command)
    status = subprocess.call(list(words), stdout=log, stderr=log, pass_fds=list(gpus.values()), env=environment)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    row = {"step": step.name, "output": step.output, "seconds": round(time.monotonic() - started, 3)}
    row |= {"user_seconds": round(used.ru_utime, 3), "system_seconds": round(used.ru_stime, 3), "gpus": step.gpus}
    row |= {"status": status, "command": shlex.join(step.command)}
    os.write(lock_file(step.times), (json.dumps(row) + "\n").encode())
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
