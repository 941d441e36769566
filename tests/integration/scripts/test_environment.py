"""environment.sh: what is there is not installed again."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.support.command_line import ROOT

PYTHON = """#!/bin/sh
echo "$*" >> "{calls}"
case "$*" in *"pip install"*) exit "${{PIP_STATUS:-0}}" ;; *version_info*) exit "${{OLD:-0}}" ;;
    *importlib*) exit "${{MISSING:-0}}" ;; esac
"""


@pytest.fixture
def install(tmp_path):
    """Calls `install "[test]"` with a python that only notes its calls; returns those of pip, and its status."""
    for name in ("scripts/environment.sh", "setup.py", "constraints.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    programs, calls = tmp_path / ".venv" / "bin", tmp_path / "calls"
    programs.mkdir(parents=True)
    (programs / "activate").touch()
    (programs / "python").write_text(PYTHON.format(calls=calls))
    (programs / "python").chmod(0o755)

    def install(**variables: str) -> tuple[int, list[str]]:
        calls.write_text("")
        environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"} | variables
        environment.pop("SWEET_RL_VENV", None)
        words = ["bash", "-ec", 'source scripts/environment.sh; install "[test]" pytest']
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
        install.said = done.stdout + done.stderr
        return done.returncode, [call for call in calls.read_text().splitlines() if "pip install" in call]

    return install


def test_it_is_installed_if_a_module_is_missing(install, tmp_path):
    status, first = install(MISSING="1")
    assert status == 0 and "torch==" in first[0] and f"-e {tmp_path}[test]" in first[-1]
    assert install.said == "installing sweet_rl[test] with torch into .venv, which takes a few minutes\n"
    assert install() == (0, []) and install.said == ""
    assert install(MISSING="1", PIP_STATUS="1")[0] != 0
