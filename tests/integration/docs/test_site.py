"""The manual as a site: mkdocs builds every page without a warning, such as of a link that leads nowhere."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.command_line import ROOT

for module in ("material", "mkdocstrings_handlers"):
    pytest.importorskip(module, reason="the manual needs: pip install -e '.[docs]'")


def test_every_page_is_built_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "not included in the" not in done.stderr, done.stderr
    assert len(list(tmp_path.glob("*/index.html"))) + 1 == len(list((ROOT / "docs").glob("*.md")))
