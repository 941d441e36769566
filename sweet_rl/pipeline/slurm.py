"""Commands as jobs of Slurm, which outlive the process that submits them and are found again by their names."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

logger = logging.getLogger(__name__)
CLIENT_LIMIT = 60  # seconds for a call of a Slurm client


def job_name(output: str | Path) -> str:
    """The name of the job that makes an output; no other output on the cluster has it."""
    path = os.path.abspath(output)
    return f"{re.sub('[^a-z0-9]+', '-', Path(path).name.lower())}-{hashlib.sha256(path.encode()).hexdigest()[:10]}"


def submit(name: str, script: str, log: str | Path, options: Mapping[str, object]) -> int:
    """Submit a shell script, which runs in the current folder, and return the exit status of sbatch.

    `log` is the file of the job's output, to whose name the job's number is added; `options` are those of sbatch by
    their long names.
    """
    Path(log).parent.mkdir(parents=True, exist_ok=True)
    flags = [f"--{key}={value}" for key, value in options.items()]
    return subprocess.call(["sbatch", "--quiet", "--job-name", name, "--output", f"{log}.%j", *flags, "--wrap", script])


def queued(name: str, poll: float) -> bool:
    """Whether a job of this name waits or runs. If the controller does not answer, it is asked every `poll` seconds."""
    command = ["squeue", "--noheader", "--format", "%i", "--name", name, "--user", str(os.getuid())]
    while True:
        try:
            return bool(subprocess.run(command, capture_output=True, check=True, timeout=CLIENT_LIMIT).stdout.strip())
        except subprocess.SubprocessError as error:
            logger.warning("squeue does not answer (%s); it is asked again in %s s", error, poll)
            time.sleep(poll)


def wait_for(name: str, poll: float) -> None:
    """Wait until no job of this name waits or runs."""
    while queued(name, poll):
        time.sleep(poll)


def cancel(name: str) -> None:
    """End the jobs of this name."""
    subprocess.run(["scancel", "--name", name], timeout=CLIENT_LIMIT, check=False)
