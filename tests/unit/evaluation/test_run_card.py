"""What a run card says of graded dialogues: success with its interval, failures, exclusions, leaks, hashes."""

import hashlib
import json
from pathlib import Path

import pytest

from sweet_rl.dialogues.domain import Domain
from sweet_rl.dialogues.task_types import load_domain
from sweet_rl.evaluation.run_card import make_card, sampling_facts
from sweet_rl.models.base import Sampling
from sweet_rl.runs.records import Task, Trajectory
from tests.support.command_line import write_rows

CODE, PAGES = load_domain("code"), load_domain("html")
TASKS = [Task(f"Task {n}", "def f(x): return x * 2 + 17", {"a": "f(1)"}, f"t{n}") for n in range(5)]


def dialogue(task: Task, reward: float | None, **more) -> Trajectory:
    history = [{"role": "user", "content": "p"}, {"role": "assistant", "content": "a"}]
    grade = {"tests": [], "failure": None, "ungradable": None, **more.pop("grade", {})}
    return Trajectory(task, history, "a", reward, ending=more.pop("ending", "answered"), grade=grade, **more)


def made(folder: Path, trajectories: list[Trajectory], domain: Domain = CODE, request: dict | None = None):
    graded = write_rows(folder / "graded.jsonl", trajectories)
    tasks = write_rows(folder / "tasks.jsonl", TASKS)
    return make_card(
        domain, {"m": graded}, {"name": "h", "hash": "0" * 16, "model": "h"},
        {"agent_prompt": "be nice", "human_prompt": ""}, sampling_facts(Sampling(), 10, 1), request, TASKS,
        str(tasks), {"m": {"served_as": ["m-2024"]}},
    )  # fmt: skip


def test_failed_dialogues_are_a_second_figure_and_those_without_a_grade_are_excluded(tmp_path):
    rewards = [dialogue(TASKS[0], 1.0), dialogue(TASKS[1], 0.5), dialogue(TASKS[2], 1.0, leaks=3)]
    failed = dialogue(TASKS[3], None, ending="failed")
    excluded = dialogue(TASKS[4], None, grade={"ungradable": "the reference fails"})
    (row,) = made(tmp_path, [*rewards, failed, excluded]).models
    assert (row["dialogues"], row["failed"], row["excluded"], row["leaks_per_dialogue"]) == (5, 1, 1, 3 / 5)
    assert (row["score"]["mean"], row["score"]["tasks"]) == (pytest.approx(2 / 3), 3)
    assert (row["failed_as_0"]["mean"], row["failed_as_0"]["tasks"]) == (0.5, 4)
    assert row["served_as"] == ["m-2024"]
    assert row["tests_passed"] == pytest.approx(2.5 / 3) and row["turns"] == 1.0
    assert row["score"]["low"] < 2 / 3 < row["score"]["high"]


def test_no_success_has_wilsons_interval(tmp_path):
    (row,) = made(tmp_path, [dialogue(task, 0.0) for task in TASKS[:3]]).models
    # z² / (3 + z²) with z = 1.959964
    assert (row["score"]["low"], row["score"]["high"]) == (0.0, pytest.approx(0.56150, abs=1e-4))


def test_pages_have_the_mean_similarity(tmp_path):
    evidence = {"similarity": 0.5, "encoder": "CLIP"}
    card = made(tmp_path, [dialogue(task, 0.2 * n, grade=evidence) for n, task in enumerate(TASKS)], PAGES)
    (row,) = card.models
    assert card.measure == "similarity" and card.grader["encoder"] == "CLIP" and "tests_passed" not in row
    assert row["score"]["mean"] == pytest.approx(0.4) and row["score"]["low"] < 0.4 < row["score"]["high"]


def test_the_hash_of_the_tasks_is_that_of_their_content_and_the_file_has_no_path(tmp_path):
    card = made(tmp_path, [dialogue(TASKS[0], 1.0)])
    assert card.tasks["file"] == "tasks.jsonl" and card.tasks["number"] == 5
    assert card.tasks["sha256"] == hashlib.sha256((tmp_path / "tasks.jsonl").read_bytes()).hexdigest()
    assert card.protocol == {"name": "sweet_rl", "files": {"agent_prompt": hashlib.sha256(b"be nice").hexdigest()}}


def test_fields_of_the_request_override_the_sampling_and_others_belong_to_the_model(tmp_path):
    request = {"temperature": None, "reasoning_effort": "low"}
    card = made(tmp_path, [dialogue(TASKS[0], 1.0)], request=request)
    assert card.sampling["temperature"] is None and card.sampling["max_turns"] == 10
    assert card.models[0]["request"] == {"reasoning_effort": "low"}
    assert json.loads(card.text())["models"][0]["request"] == {"reasoning_effort": "low"}
