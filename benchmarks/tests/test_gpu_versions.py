"""constraints-gpu.txt: a resolver finds one set of versions for every Python that it names."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from tests.support.command_line import ROOT

CONSTRAINTS = ROOT / "constraints-gpu.txt"
TEXT = CONSTRAINTS.read_text(encoding="utf-8")
CUDA = re.findall(r"^FROM nvidia/cuda:(\d+\.\d+)", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)[0]
PYTHONS = re.findall(r"\b3\.\d+\b", TEXT.partition("\n")[0])
EXTRAS = ("vllm", "deepspeed", "lora", "qlora", "workflow", "frontend")
UNREACHABLE = ("error sending request", "Failed to fetch", "timed out", "dns error", "Connection refused")

pytestmark = pytest.mark.slow


def setup_arguments() -> dict:
    with mock.patch("setuptools.setup") as setup:
        runpy.run_path(str(ROOT / "setup.py"))
    return setup.call_args.kwargs


def resolver() -> str:
    """uv, which reads the metadata of packages in place of downloading them."""
    found = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    return found or pytest.skip("needs uv: pip install uv")


def test_a_resolver_finds_the_versions_for_every_python_that_the_file_names(tmp_path):
    arguments, uv = setup_arguments(), resolver()
    assert len(PYTHONS) > 1 and f">={PYTHONS[0]}" == arguments["python_requires"]
    wanted = [*arguments["install_requires"], *(one for extra in EXTRAS for one in arguments["extras_require"][extra])]
    (tmp_path / "wanted.txt").write_text("\n".join(wanted) + "\n")
    running = {}
    for python in PYTHONS:
        words = [uv, "pip", "compile", "--quiet", "--python-version", python]
        words += ["--python-platform", "x86_64-unknown-linux-gnu", "--constraint", str(CONSTRAINTS)]
        running[python] = subprocess.Popen(
            [*words, str(tmp_path / "wanted.txt")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)", TEXT, re.MULTILINE))
    for python, process in running.items():
        out, err = process.communicate(timeout=300)
        if process.returncode and any(words in err for words in UNREACHABLE):
            pytest.skip("needs a package index that can be reached")
        assert process.returncode == 0, f"Python {python}: {err}"
        found = dict(re.findall(r"^([\w.-]+)==(\S+)", out, re.MULTILINE))
        plain = {name.lower().replace("_", "-"): version for name, version in found.items()}
        missing = {name for name, version in pins.items() if plain.get(name.lower().replace("_", "-")) != version}
        assert not missing, f"Python {python}: nothing wants {missing}"
        assert plain["cuda-toolkit"].startswith(f"{CUDA}."), "the Dockerfile has the CUDA of torch"
