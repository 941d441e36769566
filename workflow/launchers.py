"""Where the commands of the steps run: in processes of this machine, or in jobs of Slurm. Both outlive the engine."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from sweet_rl.runs import slurm
from workflow.steps import Step

HEAD_NODE = 'export HEAD_NODE="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"'
FREE_PORT = """export PORT="$(python -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')\""""
SETTLED = 60  # seconds until the files of another node are seen on a shared file system


class Local:
    """Processes of this machine. `resources`: {kind of step: {gpus: N}}; `pool`: the GPUs that the steps share."""

    def __init__(self, resources: dict, pool: str = ""):
        self.resources, self.pool = resources, pool

    def command(self, step: Step) -> list[str]:
        """The command with its clock."""
        own = self.resources.get(step.kind) or {}
        flags = {"--name": step.name, "--output": step.output, "--log": step.log, "--times": step.times, "--pool": self.pool}
        flags["--gpus"] = own.get("gpus", 0) * own.get("nodes", 1)
        words = [f"{flag}={value}" for flag, value in flags.items()]
        return [sys.executable, "-m", "sweet_rl.runs.timed", *words, "--", *step.words]

    def run(self, step: Step) -> int:
        """Run a step to its end; its exit status."""
        return subprocess.call(self.command(step))


class Slurm(Local):
    """Jobs of Slurm. `resources` also has options of sbatch, under `all` those of every job. `poll`: seconds."""

    def __init__(self, resources: dict, poll: float = 15.0):
        super().__init__(resources)
        self.poll = poll

    def run(self, step: Step) -> int:
        """Wait for the step's job of an engine that was ended, if there is one; submit the step if it is not finished."""
        name, status = slurm.job_name(step.output), 0
        slurm.wait_for(name, self.poll)
        if not step.finished():
            job = f"{HEAD_NODE}\nexec {shlex.join(self.command(step))}"
            status = slurm.submit(name, job, step.log, self._options(step.kind), wait=True)
            slurm.wait_for(name, self.poll)  # sbatch may have lost the controller
        deadline = time.monotonic() + SETTLED * (status == 0)
        while not step.finished() and time.monotonic() < deadline:
            time.sleep(1)
        return 0 if step.finished() else status or 1

    def serve(self, model: str, address: Path) -> int:
        """Start a server of a model as a job, unless it runs, and wait until it answers. `address` gets its host:port."""
        name = slurm.job_name(address)
        if not slurm.queued(name, self.poll):
            address.unlink(missing_ok=True)
            command = self.resources["server"]["command"].replace("{model}", shlex.quote(model))
            job = f'{FREE_PORT}\necho "$(hostname):$PORT" >{shlex.quote(str(address))}\nexec {command}'
            slurm.submit(name, job, f"{address}.log", self._options("server"), wait=False)
        while not _answers(address):
            if not slurm.queued(name, self.poll):
                return 1
            time.sleep(self.poll)
        return 0

    def _options(self, kind: str) -> dict:
        options = {**(self.resources.get("all") or {}), **(self.resources.get(kind) or {})}
        if gpus := options.pop("gpus", 0):
            options["gpus-per-node"] = gpus
        return {key: value for key, value in options.items() if key not in ("shards", "command")}


def _answers(address: Path) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address.read_text().strip()}/v1/models", timeout=10):
            return True
    except (OSError, ValueError):
        return False
