"""The flags of every script: documented, once each, and shown without loading torch."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys

import pytest

from sweet_rl.cli import flags_of
from sweet_rl.cli.groups import argument_docs
from tests.support.command_line import ROOT

FILES = sorted(path for folder in ("scripts", "visualizers", "lab") for path in (ROOT / folder).rglob("[a-z]*.py"))
PROGRAMS = [path for path in FILES if "    run(main" in path.read_text(encoding="utf-8")]
TRAINS_AT_IMPORT = {"make_mini_agent.py"}
SHOW = """
import runpy, sys
sys.argv = [sys.argv[1], "--help"]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    print("torch" in sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_every_flag_has_a_help_text_and_every_text_a_flag(path):
    main = runpy.run_path(str(path))["main"]
    flags = flags_of(main)
    texts = {flag.name: flag.help for flag in flags.values()}
    assert [name for name, text in texts.items() if not (text and text.endswith("."))] == []
    own = {flag.name for flag in flags.values() if flag.group is None}
    assert argument_docs(main.__doc__).keys() <= own, "a text that belongs to the docstring of a group"


@pytest.mark.parametrize("path", [path for path in PROGRAMS if "lab" not in path.parts], ids=lambda path: path.stem)
def test_help_is_shown_without_loading_torch(path):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    shown = subprocess.run([sys.executable, "-c", SHOW, path], capture_output=True, text=True, env=environment)
    assert shown.returncode == 0 and "  --config" in shown.stdout, shown.stderr
    assert shown.stderr == f"{path.name in TRAINS_AT_IMPORT}\n"
