"""GPUs: those of the driver and those of torch; attention on them; whether two processes can talk."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sweet_rl.errors import first_line
from sweet_rl.preflight.finding import Finding, failed, ok, warning
from sweet_rl.preflight.processes import why_failed
from sweet_rl.preflight.versions import INSTALL

SECONDS = 120.0  # for the first FlexAttention, which is compiled, and for an all-reduce
LARGE = 1e9  # weights of a model that no CPU trains


@dataclass(frozen=True)
class Gpus:
    """The GPUs that torch can use.

    Attributes:
        free: Free bytes of each.
        total: All bytes of each.
    """

    free: list[int] = field(default_factory=list)
    total: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.total)


def driver_gpus() -> tuple[list[str], str]:
    """Names of the GPUs that nvidia-smi lists, and the reason why it could not list them; both empty without one."""
    words = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        return [], ""
    except (OSError, subprocess.TimeoutExpired) as error:
        return [], first_line(error)
    if done.returncode:
        return [], (done.stdout + done.stderr).strip().partition("\n")[0]
    return [line.strip() for line in done.stdout.splitlines() if line.strip()], ""


def find_gpus() -> tuple[Gpus, list[Finding]]:
    """The GPUs that torch can use, and what is to be said about them."""
    import torch

    from sweet_rl.model_loading import gpu_memory

    names, broken = driver_gpus()
    if torch.cuda.is_available():
        gpus = Gpus(gpu_memory(free=True), gpu_memory())
        each = ", ".join(
            f"{free / 1e9:.1f} of {total / 1e9:.1f}" for free, total in zip(gpus.free, gpus.total, strict=True)
        )
        name = torch.cuda.get_device_name(0)
        return gpus, [ok(f"GPUs: torch {torch.__version__} can use {len(gpus)} ({name}); free: {each} GB")]
    if broken:
        return Gpus(), [failed(f"GPUs: nvidia-smi does not work ({broken}): mend the driver, or restart the machine")]
    if not names:
        return Gpus(), []
    found = f"GPUs: the driver has {len(names)} ({names[0]}), which torch {torch.__version__} cannot use: "
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if torch.version.cuda is None:
        return Gpus(), [failed(f"{found}this torch is built for CPUs. {INSTALL}")]
    if hidden is not None:
        return Gpus(), [failed(f"{found}CUDA_VISIBLE_DEVICES={hidden!r} hides them. Unset it, or give --cpu")]
    try:
        torch.cuda.init()
        reason = "it finds none"
    except Exception as error:
        reason = first_line(error)
    return Gpus(), [
        failed(f"{found}{reason}. Install a driver for CUDA {torch.version.cuda}, or a torch for this driver")
    ]


def check_count(gpus: Gpus, processes: int, weights: int) -> Iterator[Finding]:
    """Whether there are GPUs for the processes of a training; without any, whether a CPU will do.

    Args:
        gpus: GPUs of this machine.
        processes: Processes of the launcher on this machine.
        weights: Number of weights of the largest model.
    """
    if not len(gpus) and weights > LARGE:
        yield failed(
            f"GPUs: there is none, and a CPU does not train {weights / 1e9:.1f} billion weights. In a container: "
            "docker run --gpus all"
        )
    elif not len(gpus):
        yield warning("GPUs: there is none, so everything runs on the CPU. In a container: docker run --gpus all")
    elif processes > len(gpus):
        yield failed(
            f"GPUs: the launcher starts {processes} processes for {len(gpus)} GPUs: --nproc_per_node {len(gpus)}"
        )


def check_attention(gpus: Gpus, heads: tuple[int, int, int], attention: str | None) -> Finding:
    """A forward and a backward pass of the attention that trainings will take, compiled.

    Args:
        gpus: GPUs of this machine.
        heads: Numbers of query heads and of key heads, and the size of a head.
        attention: Way that was asked for.
    """
    way = attention or ("flex" if gpus else "segments")
    if way == "plain":
        return ok("attention: plain, each text by itself")
    reason = why_failed(_attention, [(way, heads, bool(gpus))], SECONDS)
    if reason is None:
        return ok(f"attention: {way} works, forward and backward ({heads[0]} heads of {heads[2]})")
    found = f"attention: {way} does not work here ({reason})"
    if attention:
        return failed(f"{found}. Leave out --attention, or give --attention masked")
    return warning(
        f"{found}; trainings will take --attention masked, which is slower and needs memory for the square of a row"
    )


def _attention(way: str, heads: tuple[int, int, int], on_gpu: bool) -> str | None:
    import torch

    from sweet_rl.log_probs.shared_prefix import why_not

    device = torch.device("cuda" if on_gpu else "cpu")
    return why_not(way, heads, device, torch.bfloat16 if on_gpu else torch.float32, backward=True)


def check_all_reduce(gpus: Gpus) -> Finding:
    """An all-reduce of two processes: NCCL on two GPUs, gloo on a CPU."""
    backend = "nccl" if gpus else "gloo"
    with tempfile.TemporaryDirectory() as folder:
        meeting = Path(folder, "meeting").as_uri()
        reason = why_failed(_all_reduce, [(rank, backend, meeting) for rank in range(2)], SECONDS)
    if reason is None:
        return ok(f"all-reduce: two processes add up a number ({backend})")
    remedy = "see what NCCL_DEBUG=INFO prints; in a container: docker run --ipc host; try NCCL_P2P_DISABLE=1"
    if backend == "gloo":
        remedy = "name the network in GLOO_SOCKET_IFNAME, for example lo"
    return failed(f"all-reduce: two processes cannot add up a number ({backend}: {reason}): {remedy}")


def _all_reduce(rank: int, backend: str, meeting: str) -> str | None:
    import torch
    from torch import distributed

    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    distributed.init_process_group(backend, init_method=meeting, rank=rank, world_size=2)
    number = torch.tensor([rank + 1.0], device=device)
    distributed.all_reduce(number)
    distributed.barrier()
    result = number.item()
    distributed.destroy_process_group()
    return None if result == 3 else f"1 + 2 is {result}"
