"""Grading and comparing keep a small part of their files in memory, and write what they would if they kept all."""

import dataclasses
import gc
import json
import tracemalloc
from pathlib import Path

import pytest

from sweet_rl.dialogues import Grade
from sweet_rl.evaluation.evaluate import write_grades
from sweet_rl.evaluation.graded_file import read_graded
from sweet_rl.evaluation.summary import summarise_rewards
from sweet_rl.method.trajectory_pairs import trajectory_pairs, write_pairs
from sweet_rl.models.texts.parts import TextMarkup
from sweet_rl.runs.records import PreferencePair, Trajectory, TrajectoryFile, read_records
from sweet_rl.runs.run import open_run
from tests.support.command_line import write_rows
from tests.support.dialogues import graded


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    """Dialogues of 20 tasks with texts and token ids, of which the first of a task may fail."""
    one = graded()[0]
    rows = []
    for number in range(120):
        task = dataclasses.replace(one.task, id=f"task{number * 7 % 20}")
        parts = [{"text": f"Said {number}. " * 100, "train": True, "token_ids": list(range(300, 800))}] * 2
        history = [*one.dialogue_history, {"role": "assistant", "content": f"{number}" * 1000, "input": "x" * 3000}]
        changed = {"ending": "failed", "reward": None} if number < 9 else {"reward": float(number % 3 == 0)}
        row = dataclasses.replace(one, id=f"{number}", task=task, parts=parts, dialogue_history=history, **changed)
        rows.append(row.to_dict())
    return write_rows(tmp_path_factory.mktemp("large") / "graded.jsonl", rows)


def most_bytes(work) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_graded_file_is_read_in_a_fraction_of_its_size(large):
    read_graded(str(large))  # what is imported
    assert most_bytes(lambda: read_graded(str(large))) < large.stat().st_size / 4


def test_grading_keeps_only_a_few_whole_dialogues(large, tmp_path):
    whole = []

    class Grader:
        def grade_many(self, jobs):
            for number, _ in enumerate(jobs):
                if number % 30 == 0:
                    whole.append(sum(type(one) is Trajectory and bool(one.parts) for one in gc.get_objects()))
                yield Grade(0.5)

    file = TrajectoryFile(large)
    for _ in file.scan():
        pass
    with open_run(tmp_path / "graded.jsonl", {}) as run:
        write_grades(file.light, file.whole, Grader(), run)
        assert sum(row["reward"] is not None for row in run.records()) == 111
    assert len(whole) == 4 and max(whole) < 20


def test_pairs_and_summary_are_those_of_all_dialogues_in_memory(large, tmp_path):
    file, whole = TrajectoryFile(large), read_records(large, Trajectory)
    assert summarise_rewards(file.scan()) == summarise_rewards(whole)
    assert [file.whole(one) for one in file.light] == whole
    write_pairs(str(tmp_path / "pairs.jsonl"), str(large), file, True, TextMarkup())
    expected = [pair.to_dict() for pair in trajectory_pairs(whole, True, TextMarkup())]
    assert len(expected) > 50
    assert [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()] == expected
    assert len(read_records(tmp_path / "pairs.jsonl", PreferencePair)) == len(expected)
