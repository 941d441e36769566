"""Scripts in processes that start at once: a server that has imported torch, transformers and DeepSpeed forks them."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerContext
from pathlib import Path
from unittest import mock

from tests.support.command_line import ROOT, free_port

ENVIRONMENT = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
# What cannot be imported is left out. DeepSpeed imports Muon, and with it torch's compiler, when a training begins. The
# last one keeps all that was imported out of the garbage collections of a training.
PRELOADED = [
    "sweet_rl.training.dpo", "sweet_rl.dialogues.simulate", "sweet_rl.evaluation.evaluate",
    "transformers.models.llama.modeling_llama", "peft", "deepspeed", "deepspeed.runtime.zero.muon.original_muon",
    "openai", "scipy.stats", "tests.support.frozen_imports",
]  # fmt: skip


def warm_context() -> ForkServerContext:
    """The context that forks processes from the server, which is started if need be."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    with mock.patch.dict(os.environ, ENVIRONMENT):
        forkserver.ensure_running()
    return context


def warm(
    script: Path, flags: Sequence[object], processes: int = 1, nodes: int = 1, timeout: float = 300
) -> tuple[int, str]:
    """Run a script to its end: the largest exit code (of a signal: its number) and everything that was printed.

    Several processes get the variables that torchrun sets, one process gets none. If one fails the others are killed.
    """
    context = warm_context()
    words, environments = [str(word) for word in flags], _environments(processes, nodes)
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder) / str(rank) for rank in range(processes)]
        running = [
            context.Process(target=_run, args=(str(script), words, environment, str(output)), daemon=True)
            for environment, output in zip(environments, outputs, strict=True)
        ]
        for process in running:
            process.start()
        while alive := [process for process in running if process.exitcode is None]:
            finished = wait([process.sentinel for process in alive], timeout)
            if not finished or any(process.exitcode for process in running):
                for process in alive:
                    process.kill()
                    process.join()
        printed = "\n".join(output.read_text() for output in outputs)
        return max(abs(process.exitcode) for process in running), printed


def _environments(processes: int, nodes: int) -> list[dict[str, str]]:
    if processes == 1:
        return [{}]
    port, local = free_port(), processes // nodes
    return [
        {
            "RANK": str(rank), "WORLD_SIZE": str(processes), "LOCAL_RANK": str(rank % local),
            "LOCAL_WORLD_SIZE": str(local), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
        }
        for rank in range(processes)
    ]  # fmt: skip


def _run(script: str, words: Sequence[str], environment: Mapping[str, str], output: str) -> None:
    os.environ.update(environment)
    file = os.open(output, os.O_WRONLY | os.O_CREAT)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.argv = [script, *words]
    runpy.run_path(script, run_name="__main__")
