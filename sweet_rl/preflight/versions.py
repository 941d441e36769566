"""Whether the installed versions fit each other and are those that were tested on GPUs; compiler and Python.h."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from sweet_rl.cli.configs import PACKAGE
from sweet_rl.preflight.finding import Finding, failed, ok, warning

WATCHED = ("torch", "transformers", "vllm", "deepspeed", "peft", "accelerate", "numpy", "openai", "huggingface_hub")
"""Packages whose versions must fit each other."""
EXTRAS = ("train", "vllm", "deepspeed", "lora")
INSTALL = "pip install -c constraints-gpu.txt -e '.[vllm,deepspeed]'"
CONSTRAINTS = PACKAGE.parent / "constraints-gpu.txt"  # of a checkout
SOURCE = "#include <Python.h>\nint main(void) { return Py_IsInitialized(); }\n"


def installed(name: str) -> str | None:
    """The version of a package; None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def check_versions(needed: set[str], on_gpu: bool) -> Iterator[Finding]:
    """Versions against what the packages themselves, setup.py and constraints-gpu.txt ask for.

    Args:
        needed: Packages that the steps need.
        on_gpu: Whether there is a GPU, for which the tested set is meant.
    """
    found = {name: number for name in WATCHED if (number := installed(name))}
    missing = sorted({"torch", "transformers", *needed} - found.keys())
    if missing:
        yield failed(f"versions: not installed: {', '.join(missing)}. {INSTALL}")
    wrong = list(_misfits(found))
    for text in wrong:
        yield failed(f"versions: {text}. The tested set fits: {INSTALL}")
    if not missing and not wrong:
        yield ok(f"versions: {', '.join(f'{name} {number}' for name, number in found.items())} fit each other")
    if on_gpu and "vllm" not in found:
        yield warning(f"versions: vLLM is not installed, so dialogues take one GPU and many times as long: {INSTALL}")
    if on_gpu and CONSTRAINTS.is_file() and (others := list(_untested(found))):
        yield warning(f"versions: the set that was tested has {', '.join(others)}: {INSTALL}")


def _misfits(found: dict[str, str]) -> Iterator[str]:
    """What an installed package asks of another one that has another version."""
    from packaging.requirements import Requirement

    for name in ("sweet_rl", *found):
        for text in (requires(name) if installed(name) else None) or []:
            asked = Requirement(text)
            extras = ("", *EXTRAS) if name == "sweet_rl" else ("",)
            applies = asked.marker is None or any(asked.marker.evaluate({"extra": extra}) for extra in extras)
            number = found.get(asked.name.lower().replace("-", "_"))
            if applies and number and not asked.specifier.contains(number, prereleases=True):
                yield f"{name} {installed(name)} wants {asked.name}{asked.specifier}, found {number}"


def _untested(found: dict[str, str]) -> Iterator[str]:
    """Versions of constraints-gpu.txt that are not the installed ones, local parts (+cu130) aside."""
    pins = re.findall(r"^([\w.-]+)==([^;\s]+)", CONSTRAINTS.read_text(encoding="utf-8"), re.MULTILINE)
    for name, number in pins:
        here = found.get(name.lower().replace("-", "_"))
        if here and here.partition("+")[0] != number:
            yield f"{name} {number} (here {here})"


def check_compiler(needed: bool) -> Finding:
    """Compile a file that includes Python.h, as Triton and DeepSpeed do.

    Args:
        needed: Whether a step compiles: FlexAttention on a GPU, or DeepSpeed.
    """
    named = os.environ.get("CC")
    compiler = shutil.which(named) if named else next(filter(None, map(shutil.which, ("gcc", "clang", "cc"))), None)
    headers = sysconfig.get_path("include")
    remedy = f"apt-get install build-essential python{sysconfig.get_python_version()}-dev"
    reason = None
    if compiler is None:
        reason = f"there is no C compiler ({named or 'gcc, clang'})"
    elif not Path(headers, "Python.h").is_file():
        reason = f"there is no {headers}/Python.h"
    else:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "file.c")
            source.write_text(SOURCE)
            words = [compiler, "-c", f"-I{headers}", str(source), "-o", str(source.with_suffix(".o"))]
            done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            reason = f"{compiler} does not compile a file with Python.h ({lines[0][:200]})"
    if reason is None:
        return ok(f"compiler: {compiler} compiles with {headers}/Python.h")
    text = f"compiler: {reason}, which FlexAttention and DeepSpeed need: {remedy}"
    return failed(text) if needed else warning(text)
