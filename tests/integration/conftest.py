"""The run of the pipeline that the tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from filelock import FileLock


@pytest.fixture(scope="session")
def mini_run(tmp_path_factory) -> Path:
    """The folder of one small run of all steps (`tests/support/mini_run.py`), made once for all workers of xdist.

    A test that changes a file copies it.
    """
    from tests.support.mini_run import make_mini_run

    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder = root / "mini_run"
    with FileLock(root / "mini_run.lock"):
        if not (folder / "table.md").exists():
            folder.mkdir(exist_ok=True)
            make_mini_run(folder)
    return folder
