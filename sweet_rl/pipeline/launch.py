"""Where steps run: in processes of this machine, or in jobs of Slurm. Both outlive the engine that starts them."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sweet_rl.pipeline import slurm
from sweet_rl.pipeline.plan import Step

HEAD_NODE = 'export HEAD_NODE="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"'
FREE_PORT = "python -c 'import socket; s = socket.socket(); s.bind((\"\", 0)); print(s.getsockname()[1])'"
SETTLED = 20.0  # seconds until files that another node wrote are seen on a shared file system


class Local:
    """Processes of this machine.

    Args:
        resources: {kind of step: {"gpus": N}}.
        pool: numbers of the GPUs that the steps share, separated by commas; empty if there are none.
    """

    def __init__(self, resources: Mapping[str, Any], pool: str = ""):
        self.resources, self.pool = resources, pool

    def command(self, step: Step) -> list[str]:
        """The command of a step with its lock and its clock (`sweet_rl.pipeline.timed`)."""
        own = self.resources.get(step.kind) or {}
        flags = {"--name": step.name, "--output": step.output, "--log": step.log, "--times": step.times}
        flags |= {"--pool": self.pool, "--gpus": own.get("gpus", 0) * own.get("nodes", 1)}
        words = [f"{flag}={value}" for flag, value in flags.items()]
        return [sys.executable, "-m", "sweet_rl.pipeline.timed", *words, "--", *step.words]

    def run(self, step: Step) -> int:
        """Run a step to its end and return its exit status."""
        return subprocess.call(self.command(step))


class Slurm(Local):
    """Jobs of Slurm. In their commands $HEAD_NODE is the first node, and in that of a server $PORT a free port.

    Args:
        resources: {kind of step: {"gpus": N on each node, option of sbatch: value}}; "all": options of every job;
            "server": those of a server, with its "command".
        poll: seconds between two looks at the queue.
    """

    def __init__(self, resources: Mapping[str, Any], poll: float = 15.0):
        super().__init__(resources)
        self.poll = poll

    def run(self, step: Step) -> int:
        """Run a step to its end and return 0 if it is finished.

        If a job of an earlier engine makes the same output, it is waited for, and a new one submitted only if that one
        did not finish the step.
        """
        name, status = slurm.job_name(step.output), 0
        slurm.wait_for(name, self.poll)
        if not step.finished():
            script = f"{HEAD_NODE}\nexec {shlex.join(self.command(step))}"
            status = slurm.submit(name, script, step.log, self._options(step.kind))
            slurm.wait_for(name, self.poll)
        deadline = time.monotonic() + SETTLED
        while status == 0 and not step.finished():
            if time.monotonic() > deadline:
                return 1
            time.sleep(0.5)
        return status

    def serve(self, model: str, address: Path) -> int:
        """Start a server of a model, unless its job is there, and wait until it answers; 0 if it does.

        Args:
            model: replaces {model} in the command.
            address: file that its host:port is written to.
        """
        name = slurm.job_name(address)
        if not slurm.queued(name, self.poll):
            address.unlink(missing_ok=True)
            command = self.resources["server"]["command"].replace("{model}", shlex.quote(model))
            script = f'export PORT="$({FREE_PORT})"\necho "$(hostname):$PORT" >{shlex.quote(str(address))}\n'
            script += f"exec {command}"
            slurm.submit(name, script, f"{address}.log", self._options("server"))
        while not _answers(address):
            if not slurm.queued(name, self.poll):
                return 1
            time.sleep(self.poll)
        return 0

    def _options(self, kind: str) -> dict[str, Any]:
        options = {**(self.resources.get("all") or {}), **(self.resources.get(kind) or {})}
        gpus = options.pop("gpus", 0)
        options = {key: value for key, value in options.items() if key not in ("shards", "command")}
        return options | ({"gpus-per-node": gpus} if gpus else {})


def _answers(address: Path) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address.read_text(encoding='utf-8').strip()}/v1/models", timeout=10):
            return True
    except (OSError, ValueError):
        return False
