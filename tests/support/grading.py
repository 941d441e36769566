"""Short ways to grade one answer in a test."""

import json
import os
from pathlib import Path

from sweet_rl.dialogues import Grade
from sweet_rl.dialogues.backend.hidden_tests import CodeGrader
from sweet_rl.runs.records import Task


def grade(grader: CodeGrader, reference: str, answer: str | None, calls: dict[str, str]) -> Grade:
    return grader.grade(Task("", reference, calls), answer)


def reasons(grade: Grade) -> list[str | None]:
    """Why each test failed; None for a test that passed."""
    return [test.get("reason") for test in grade.evidence["tests"]]


def messages(grade: Grade) -> list[str | None]:
    return [test.get("message") for test in grade.evidence["tests"]]


def colbench() -> Path | None:
    """ColBench's development tasks, if they are on this machine."""
    root = Path(__file__).resolve().parents[2]
    for folder in (os.environ.get("SWEET_RL_COLBENCH"), root.parent / "shared" / "data" / "colbench"):
        if folder and (Path(folder) / "backend_dev.jsonl").is_file():
            return Path(folder) / "backend_dev.jsonl"
    return None


def colbench_tasks() -> list[Task]:
    return [Task.from_dict(json.loads(line)) for line in colbench().read_text(encoding="utf-8").splitlines()]
