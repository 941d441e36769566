"""A script killed in the middle and started again ends with the same records as one never killed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from sweet_rl.dialogues.mini.tasks import make_tasks
from tests.support.command_line import check_call, count_rows, kill_when, read_rows, write_rows

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """This process computes as those that are killed."""
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Answers to mini tasks: right ones, wrong ones and ones that raise; so many that a busy machine kills in time."""
    place, answers = tmp_path_factory.mktemp("place"), []
    for task in make_tasks(60, seed=3):
        header = task["ground_truth"].partition("\n")[0]
        for code in (task["ground_truth"], f"{header}\n    return 0", f"{header}\n    raise ValueError"):
            history = [{"role": "user", "content": ""}, {"role": "assistant", "content": code, "logprobs": [-1.0]}]
            answers.append({"task": task, "dialogue_history": history, "answer": code, "reward": None})
    write_rows(place / "answers.jsonl", answers)
    return place


FLAGS = {
    "simulate_interactions.py": {
        "agent_model": "mini", "env_model": "mini", "input_path": "{run}/tasks/train.jsonl", "best_of_n": 2,
        "max_tokens": 60, "concurrency": 4,
    },
    "evaluate_code.py": {"input_path": "{place}/answers.jsonl", "workers": 1},
    "score_turns.py": {"model_id": "mini", "reference": "sampled", "input_path": "{place}/answers.jsonl"},
    "sample_best_of_n.py": {
        "model_id": "mini", "input_path": "{run}/dialogues.jsonl", "best_of_n": 2, "max_tokens": 40, "concurrency": 2,
    },
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


@pytest.mark.parametrize("script", FLAGS)
def test_killed_in_the_middle_and_continued_it_has_the_records_of_a_run_never_killed(script, place, mini_run):
    flags = {name: str(value).format(run=mini_run, place=place) for name, value in FLAGS[script].items()}
    whole, path = place / f"{script}.whole.jsonl", place / f"{script}.killed.jsonl"
    check_call(script, **flags, output_path=whole)
    expected = {row["id"]: row for row in read_rows(whole)}

    kill_when(lambda: count_rows(path) >= 3, script, **flags, output_path=path)
    assert 3 <= count_rows(path) < len(expected)
    os.truncate(path, path.stat().st_size - 5)  # the last record is torn
    check_call(script, **flags, output_path=path)

    rows = read_rows(path)
    assert len(rows) == len(expected) and {row["id"] for row in rows} == set(expected)
    for row in rows:
        assert same(row, expected[row["id"]]), f"{row['id']} differs"
    assert "already complete" in check_call(script, **flags, output_path=path)
