"""The flags of every script: documented, once each, and shown without loading torch."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys

import pytest

from sweet_rl.runs.cli import argument_docs, flags_of
from tests.support.command_line import ROOT

FILES = sorted(path for folder in ("scripts", "visualizers", "lab") for path in (ROOT / folder).rglob("[a-z]*.py"))
PROGRAMS = [path for path in FILES if "    run(main" in path.read_text(encoding="utf-8")]
SHOW_ALL = """
import contextlib, io, runpy, sys
for path in sys.argv[1:]:
    sys.argv = [path, "--help"]
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        runpy.run_path(path, run_name="__main__")
    assert "  --config" in shown.getvalue(), path
    assert "torch" not in sys.modules, path
"""


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_every_flag_has_a_help_text_and_every_text_a_flag(path):
    if path.parent.name == "trl_grpo":
        pytest.importorskip("trl")
    main = runpy.run_path(str(path))["main"]
    flags = flags_of(main)
    assert [flag.name for flag in flags.values() if not flag.help] == []
    own = {flag.name for flag in flags.values() if flag.group is None}
    assert argument_docs(main.__doc__).keys() <= own, "a text that belongs to the docstring of a group"


def test_help_is_shown_without_loading_torch():
    programs = [path for path in PROGRAMS if "lab" not in path.parts]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    shown = subprocess.run([sys.executable, "-c", SHOW_ALL, *programs], capture_output=True, text=True, env=environment)
    assert shown.returncode == 0, shown.stderr
