"""A real Slurm of one node on this machine, without systemd and accounting."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel")
CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={place}/munge.socket
CredType=cred/munge
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
MpiDefault=none
ReturnToService=2
MinJobAge=300
SchedulerParameters=batch_sched_delay=0
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES State=UP DefMemPerCPU=500
"""


@contextlib.contextmanager
def slurm_cluster(place: Path, cpus: int = 2) -> Iterator[None]:
    """Start Slurm in a folder and point its clients at it; skip the test where that cannot be done."""
    if missing := [name for name in NEEDED if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]:
        pytest.skip(f"no {', '.join(missing)}: apt-get install -y slurm-wlm munge")
    if os.getuid() != 0:
        pytest.skip("only root can start a Slurm of its own")
    host = socket.gethostname().split(".")[0]
    for folder in ("state", "spool"):
        (place / folder).mkdir(parents=True)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20 * 9 // 10
    ports = {"controller_port": _free_port(), "node_port": _free_port()}
    conf = place / "slurm.conf"
    conf.write_text(CONF.format(host=host, place=place, cpus=min(cpus, os.cpu_count()), memory=memory, **ports))
    key = place / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    munge = ["--key-file", key, "--socket", place / "munge.socket", "--pid-file", place / "munge.pid"]
    munge += ["--log-file", place / "munge.log", "--seed-file", place / "munge.seed"]
    commands = (
        ["/usr/sbin/munged", "--foreground", "--force", *map(str, munge)],
        ["/usr/sbin/slurmctld", "-D", "-f", str(conf)],
        ["/usr/sbin/slurmd", "-D", "-N", host, "-f", str(conf)],
    )
    running: list[subprocess.Popen] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(conf))
        try:
            for command in commands:
                with open(place / f"{Path(command[0]).name}.out", "wb") as output:
                    running.append(subprocess.Popen(command, stdout=output, stderr=output))
                _wait_for(lambda: (place / "munge.socket").exists(), "munged does not start")
            _wait_for(_idle, f"the node does not come up, see {place}")
            yield
        finally:
            for process in reversed(running):
                process.terminate()
                process.wait(timeout=30)


def _idle() -> bool:
    command = ["sinfo", "--noheader", "--format", "%t"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip() == "idle"
    except subprocess.TimeoutExpired:
        return False


def _wait_for(holds, otherwise: str, limit: float = 60.0) -> None:
    deadline = time.monotonic() + limit
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(otherwise)
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
