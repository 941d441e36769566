"""The packaged mini agent behind a real server, and tasks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweet_rl.dialogues.mini.tasks import make_tasks
from sweet_rl.models.transformers_local import TransformersModel
from sweet_rl.models.weights import model_path
from tests.support.command_line import write_rows
from tests.support.served_model import ServedModel


@pytest.fixture(scope="module")
def served():
    with ServedModel(TransformersModel.from_pretrained(model_path("mini"))) as server:
        yield server


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with three mini tasks."""
    write_rows(tmp_path / "tasks.jsonl", make_tasks(3, seed=4))
    return tmp_path
