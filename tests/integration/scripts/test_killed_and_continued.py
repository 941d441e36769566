"""A script killed in the middle and started again ends with the same records as one never killed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from sweet_rl.dialogues.mini.tasks import make_tasks
from tests.support.command_line import call, count_rows, kill_when, read_rows, write_rows

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def as_in_processes():
    """This process computes as those that are killed: on the CPU, with one thread."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.cuda.is_available", lambda: False)
        torch.set_num_threads(1)
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Mini tasks, dialogues about them, and answers: right ones, wrong ones and ones that raise."""
    place, answers = tmp_path_factory.mktemp("place"), []
    write_rows(place / "tasks.jsonl", make_tasks(6, seed=0))
    for task in make_tasks(60, seed=3):  # many, so that a busy machine kills before the end
        header = task["ground_truth"].partition("\n")[0]
        for code in (task["ground_truth"], f"{header}\n    return 0", f"{header}\n    raise ValueError"):
            history = [{"role": "user", "content": ""}, {"role": "assistant", "content": code, "logprobs": [-1.0]}]
            answers.append({"task": task, "dialogue_history": history, "answer": code, "reward": None})
    write_rows(place / "answers.jsonl", answers)
    done = call("simulate_interactions.py", **dialogues(place), output_path=whole(place, "simulate_interactions.py"))
    assert done.code == 0, done.err
    return place


def whole(place: Path, script: str) -> Path:
    """The records of a run of the script that was never killed."""
    return place / f"{script}.whole.jsonl"


def dialogues(place: Path) -> dict:
    return {
        "agent_model": "mini", "env_model": "mini", "input_path": place / "tasks.jsonl", "best_of_n": 2,
        "max_tokens": 60, "concurrency": 4,
    }  # fmt: skip


def grades(place: Path) -> dict:
    return {"input_path": place / "answers.jsonl", "workers": 1}


def credit(place: Path) -> dict:
    return {"model_id": "mini", "reference": "sampled", "input_path": place / "answers.jsonl"}


def candidates(place: Path) -> dict:
    return {
        "model_id": "mini", "input_path": whole(place, "simulate_interactions.py"), "best_of_n": 2, "max_tokens": 40,
        "concurrency": 2, "data_fraction": 0.5,
    }  # fmt: skip


def same(one, other) -> bool:
    """Equal, numbers with a fraction up to the rounding that the company in a batch makes."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, abs=1e-3)
    return one == other


@pytest.mark.parametrize(
    ("script", "flags"),
    [
        ("simulate_interactions.py", dialogues),
        ("evaluate_code.py", grades),
        ("score_turns.py", credit),
        ("sample_best_of_n.py", candidates),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_killed_in_the_middle_and_continued_it_has_the_records_of_a_run_never_killed(script, flags, place):
    path = place / f"{script}.killed.jsonl"
    if not whole(place, script).exists():
        done = call(script, **flags(place), output_path=whole(place, script))
        assert done.code == 0, done.err
    expected = {row["id"]: row for row in read_rows(whole(place, script))}

    kill_when(lambda: count_rows(path) >= 3, script, **flags(place), output_path=path)
    assert 3 <= count_rows(path) < len(expected)
    os.truncate(path, path.stat().st_size - 5)  # the last record is torn
    assert call(script, **flags(place), output_path=path).code == 0

    rows = read_rows(path)
    assert len(rows) == len(expected) and {row["id"] for row in rows} == set(expected)
    for row in rows:
        assert same(row, expected[row["id"]]), f"{row['id']} differs"
    again = call(script, **flags(place), output_path=path)
    assert again.code == 0 and "already complete" in again.out
