"""Step 2 on a domain whose grader is a function: what is graded, what is written, what is refused."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import pytest

from sweet_rl.dialogues import Domain, Grade
from sweet_rl.dialogues.domain import FunctionGrader
from sweet_rl.evaluation.evaluate import DialogueTexts, GradedDialogues, SummarySettings, TrainingData, evaluate
from sweet_rl.runs.cli import UNRECORDED
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, Trajectory
from sweet_rl.runs.step import StepSettings
from tests.support.command_line import read_rows, write_rows

OF_TRAININGS = ("preference_path", "ground_truth_preference_path", "best_path", "min_gap")


@dataclass(frozen=True)
class Grading:
    strictness: float = 1.0
    concurrency: Annotated[int, UNRECORDED] = 4


def domain(**fields) -> Domain:
    return Domain("mine", reward=lambda task, answer: float(answer), **fields)


def dialogue(number: int, sample: int, answer: str | None, ending: str = "answered") -> dict:
    parts = [{"text": "task", "train": False, "bos": True}, {"text": f"{answer} {sample}", "train": True}]
    history = [{"role": "user", "content": "task"}, {"role": "assistant", "content": f"{answer} {sample}"}]
    task = Task(f"task {number}", "the solution", id=f"t{number}")
    made = Trajectory(task, history, answer, id=f"t{number}-{sample}", ending=ending, parts=parts, reward=0.9)
    return made.to_dict()


@pytest.fixture()
def source(tmp_path) -> Path:
    rows = [dialogue(0, 0, "0.5"), dialogue(0, 1, "0.3"), dialogue(1, 0, None, "failed"), dialogue(1, 1, "0.2")]
    return write_rows(tmp_path / "in.jsonl", rows)


def run(source: Path, of: Domain | None = None, grading: Grading = Grading(), **settings) -> Path:  # noqa: B008
    data = TrainingData(**{name: settings.pop(name) for name in OF_TRAININGS if name in settings})
    summary = SummarySettings(**{name: settings.pop(name) for name in ("k", "baseline") if name in settings})
    dialogues = GradedDialogues(str(source), **{"output_path": str(source.with_name("out.jsonl")), **settings})
    evaluate(of or domain(), dialogues, summary, data, DialogueTexts(), grading, StepSettings())
    return source.with_name("out.jsonl")


def test_every_answer_is_graded_anew_and_the_summary_is_printed_and_kept(source, capsys):
    out = run(source)
    assert [row["reward"] for row in read_rows(out)] == [0.5, 0.3, None, 0.2]
    assert "reward" in (printed := capsys.readouterr().out) and "graded by" in printed
    summary = json.loads(Path(f"{out}.manifest.json").read_text())["summary"]
    assert summary["reward"]["mean"] == pytest.approx((0.4 + 0.2) / 2)
    run(source)
    assert "already complete" in capsys.readouterr().out


def test_pairs_follow_the_domains_gap_or_the_one_that_is_given(source):
    paths = [str(source.with_name(f"{name}.jsonl")) for name in ("plain", "gap", "hinted")]
    run(source, preference_path=paths[0])
    assert read_rows(Path(paths[0])) == []
    run(source, domain(min_gap=0.3), preference_path=paths[1], min_gap=0.1, ground_truth_preference_path=paths[2])
    (pair,), (hinted,) = read_rows(Path(paths[1])), read_rows(Path(paths[2]))
    assert pair["id"] == hinted["id"] == "t0-0>t0-1"
    assert "the solution" in json.dumps(hinted["rejected"]) and "the solution" not in json.dumps(pair["rejected"])


def test_the_best_dialogue_of_each_task_is_written(source):
    best = source.with_name("best.jsonl")
    run(source, best_path=str(best))
    assert [row["id"] for row in read_rows(best)] == ["t0-0", "t1-1"]


def test_a_changed_setting_or_domain_file_is_refused(source):
    path = source.with_name("my_domain.py")
    path.write_text("x = 1")
    mine = replace(domain(), source=path)
    run(source, mine)
    with pytest.raises(UserError, match="strictness"):
        run(source, mine, Grading(2.0))
    path.write_text("x = 2")
    with pytest.raises(UserError, match="my_domain.py"):
        run(source, mine)


def test_what_the_grader_found_is_a_setting_of_the_run(source):
    class Found(FunctionGrader):
        def to_settings(self):
            return {"encoder": "clip"}

    out = run(source, Domain("mine", grader=lambda settings: Found(lambda task, answer: 0.0)))
    settings = json.loads(Path(f"{out}.manifest.json").read_text())["settings"]
    assert settings == {"num_tasks": None, "grade_references": False, "strictness": 1.0, "encoder": "clip"}


def test_answers_that_failed_by_the_machine_are_graded_again_when_asked(source):
    slow = {"0.3"}

    def reward(task, answer):
        return Grade(None, machine="ran out of wall time") if answer in slow else float(answer)

    mine = Domain("mine", reward=reward)
    out = run(source, mine)
    assert [row["reward"] for row in read_rows(out)] == [0.5, None, None, 0.2]
    slow.clear()
    run(source, mine)
    assert [row["reward"] for row in read_rows(out)] == [0.5, None, None, 0.2]
    run(source, mine, retry_failed=True)
    assert {row["id"]: row["reward"] for row in read_rows(out)} == {"t0-0": 0.5, "t0-1": 0.3, "t1-0": None, "t1-1": 0.2}


def test_in_place_replaces_the_input_when_all_is_graded(source):
    run(source, output_path=None, in_place=True)
    assert [row["reward"] for row in read_rows(source)] == [0.5, 0.3, None, 0.2]
    assert sorted(path.name for path in source.parent.iterdir()) == ["in.jsonl"]


def test_reference_solutions_are_graded_as_answers(tmp_path):
    rows = [Task("a", "0.25", id="t0").to_dict(), Task("b", "0.75", id="t1").to_dict()]
    out = run(write_rows(tmp_path / "tasks.jsonl", rows), grade_references=True)
    assert [(row["id"], row["reward"]) for row in read_rows(out)] == [("t0", 0.25), ("t1", 0.75)]


def test_a_run_is_compared_with_its_baseline(source, capsys):
    other = source.with_name("other.jsonl")
    rows = [row | {"answer": row["answer"] and "0.0"} for row in read_rows(source)]
    run(write_rows(source.with_name("worse.jsonl"), rows), output_path=str(other))
    run(source, baseline=str(other))
    assert "win rate          100.0 %" in capsys.readouterr().out


def test_a_baseline_with_another_reward_is_refused(source):
    other = source.with_name("other.jsonl")
    run(source, Domain("mine", reward=lambda task, answer: 0.0), output_path=str(other))
    with pytest.raises(UserError, match="graded differently .grader: "):
        run(source, baseline=str(other))


@pytest.mark.parametrize(
    ("settings", "flag"),
    [
        ({"output_path": "b"}, "output_path"),
        ({"num_tasks": 1}, "num_tasks"),
        ({"retry_failed": True}, "retry_failed"),
    ],
)
def test_settings_that_contradict_replacing_the_input_are_refused(settings, flag):
    with pytest.raises(UserError, match=f"leave out --{flag}"):
        GradedDialogues("a", in_place=True, **settings)


def test_the_tasks_are_checked_by_the_domain_before_anything_is_written(source):
    def check(tasks, path):
        raise UserError(f"{path}: not mine")

    with pytest.raises(UserError, match="in.jsonl: not mine"):
        run(source, domain(check_tasks=check))
    assert not source.with_name("out.jsonl").exists()
