"""environment.sh: what is installed once is not installed again, until what it needs changes."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.command_line import ROOT

PYTHON = """#!/bin/sh
echo "$*" >> "{calls}"
case "$*" in *"pip install"*) exit "${{PIP_STATUS:-0}}" ;; *version_info*) exit "${{OLD:-0}}" ;; esac
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
        words = ["bash", "-ec", 'source scripts/environment.sh; install "[test]"']
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
        install.said = done.stdout + done.stderr
        return done.returncode, [call for call in calls.read_text().splitlines() if "pip install" in call]

    return install


def test_it_is_installed_once_until_the_constraints_change(install, tmp_path):
    status, first = install()
    assert status == 0 and "torch==" in first[0] and f"-e {tmp_path}[test]" in first[-1]
    assert install.said == "installing sweet_rl[test] with torch into .venv, which takes a few minutes\n"
    assert install() == (0, []) and install.said == ""
    with open(Path(tmp_path, "constraints.txt"), "a") as file:
        file.write("# changed\n")
    assert install()[1]


def test_what_failed_is_tried_again(install):
    assert install(PIP_STATUS="1")[0] != 0
    status, again = install()
    assert status == 0 and again


@pytest.mark.parametrize("made", [True, False])
def test_an_old_python_is_refused_before_anything_is_made_of_it(made, install, tmp_path):
    folder = tmp_path / ".venv"
    if not made:
        folder = folder.rename(tmp_path / "old")
    status, called = install(OLD="1", PYTHON=str(folder / "bin" / "python"))
    assert (status, called) == (2, []) and "Python 3.11 or newer" in install.said
    assert (tmp_path / ".venv").exists() == made
    assert 'python_requires=">=3.11"' in (ROOT / "setup.py").read_text()
