"""Whether training and ranking are right and fast on this machine's GPU, in twelve minutes and without a download.

    python benchmarks/gpu_check.py                       # one H100 or H200; writes results/gpu/NAME_OF_THE_GPU.md
    python benchmarks/gpu_check.py --peer_python peer/bin/python      # TRL beside it, from an environment of its own
    python benchmarks/gpu_check.py --cpu --output_dir /tmp/check      # the same checks with tiny shapes
    python benchmarks/gpu_check.py --only ranking

Models have the shapes of Llama 3 and random weights. Each check runs in a process of its own (with --cpu: in this
one), so that a failed check, even one that ends its process, is reported on the page and the others go on. If a check
failed, the exit status is 1. The checks are the functions of gpu_exact.py and gpu_speed.py; memory is calculated by
sweet_rl/training/memory.py.
"""

from __future__ import annotations

import datetime
import multiprocessing
import platform
import re
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import gpu_exact
import gpu_speed
import torch
import transformers
from gpu_scale import CPU, Line, Scale

from sweet_rl.runs.cli import run
from sweet_rl.runs.errors import UserError

SECONDS = 600.0  # that one check may take
Check = Callable[[Scale], list[Line]]


@dataclass(frozen=True)
class Outcome:
    """What came of a check: its lines and seconds, or the error that ended it."""

    name: str
    title: str
    lines: list[Line]
    seconds: float
    error: str = ""

    @property
    def right(self) -> bool:
        """Whether it ran and nothing in it was wrong."""
        return not self.error and all(line.right is not False for line in self.lines)


def checks_of(scale: Scale) -> dict[str, Check]:
    """The checks by name, in their order."""
    checks: dict[str, Check] = {name: getattr(gpu_exact, name) for name in ("attention", "shared_rows", "first_loss")}
    if scale.device == "cuda" or scale.processes > 1:
        checks["parallel"] = gpu_exact.parallel
    for shape in scale.trained:
        for lora in (False, True):
            name = f"train_{shape}_{'lora' if lora else 'full'}"
            checks[name] = partial(gpu_speed.train_shape, shape=shape, lora=lora)
    return checks | {name: getattr(gpu_speed, name) for name in ("ranking", "trl")}


def title_of(check: Check) -> str:
    """The first line of the check's docstring."""
    function = check.func if isinstance(check, partial) else check
    return (function.__doc__ or "").strip().splitlines()[0]


def attempt(check: Check, scale: Scale) -> tuple[list[Line], str]:
    """The lines of a check, and the end of the traceback if it failed."""
    try:
        return check(scale), ""
    except (Exception, SystemExit):
        return [], traceback.format_exc()[-1500:]


def _send(check: Check, scale: Scale, pipe) -> None:
    pipe.send(attempt(check, scale))


def attempt_apart(check: Check, scale: Scale) -> tuple[list[Line], str]:
    """The same in a process of its own, which may die or take too long."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(check, scale, there))
    process.start()
    there.close()
    try:
        return here.recv() if here.poll(SECONDS) else ([], f"stopped after {SECONDS:.0f} seconds")
    except EOFError:
        process.join()
        return [], f"the process ended with exit code {process.exitcode}"
    finally:
        process.kill()
        process.join()


def page(outcomes: list[Outcome], device: str, command: str) -> str:
    """The page of figures, markdown."""
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}"
    lines = [
        f"# {device}", "", f"`{command}`, {datetime.date.today()}; {versions}.", "",
        "| check | seconds | |", "|---|---|---|",
    ]  # fmt: skip
    lines += [f"| {one.name} | {one.seconds:.1f} | {'ok' if one.right else 'FAILED'} |" for one in outcomes]
    for one in outcomes:
        lines += ["", f"## {one.name}", "", one.title, ""]
        if one.error:
            lines += ["```", one.error.strip(), "```"]
        if one.lines:
            lines += ["| | found | wanted | |", "|---|---|---|---|"]
            marks = {True: "ok", False: "WRONG", None: ""}
            rows = [(x.name, x.found, x.wanted, marks[x.right]) for x in one.lines]
            lines += [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def main(
    cpu: bool = False,
    output_dir: str = "results/gpu",
    only: list[str] | None = None,
    peer_python: str | None = None,
    processes: int | None = None,
) -> None:
    """Run the checks and write the page.

    Args:
        cpu: tiny shapes on the CPU
        output_dir: folder of the page, NAME_OF_THE_DEVICE.md
        only: names of the checks to run; default: all
        peer_python: interpreter of an environment with trl; default: this one, if it has trl
        processes: processes of the checks under torchrun; default: one per GPU, and with --cpu none of these checks
    """
    if not cpu and not torch.cuda.is_available():
        raise UserError("torch finds no GPU. Give --cpu for the same checks with tiny shapes, or check the driver.")
    device = platform.processor() or platform.machine() if cpu else torch.cuda.get_device_name(0)
    processes = processes or (1 if cpu else torch.cuda.device_count())
    scale = replace(CPU if cpu else Scale(), processes=processes, peer_python=peer_python)
    checks = checks_of(scale)
    if unknown := set(only or ()) - checks.keys():
        raise UserError(f"--only names {', '.join(sorted(unknown))}; there are {', '.join(checks)}.")
    path = Path(output_dir) / ("cpu.md" if cpu else re.sub(r"\W+", "_", device.lower()) + ".md")
    path.parent.mkdir(parents=True, exist_ok=True)
    command = " ".join(["python benchmarks/gpu_check.py", *sys.argv[1:]])
    outcomes: list[Outcome] = []
    for name, check in checks.items():
        if only and name not in only:
            continue
        began = time.perf_counter()
        lines, error = (attempt if cpu else attempt_apart)(check, scale)
        outcomes.append(Outcome(name, title_of(check), lines, time.perf_counter() - began, error))
        print(f"{name}: {'ok' if outcomes[-1].right else 'FAILED'} ({outcomes[-1].seconds:.1f} s)", flush=True)
        path.write_text(page(outcomes, device, command), encoding="utf-8")  # after each check: a stopped run keeps them
    print(path)
    if not all(one.right for one in outcomes):
        sys.exit(1)


if __name__ == "__main__":
    run(main)
