"""One run's figures and the comparison of several, by hand-computed numbers."""

import pytest

from sweet_rl.errors import UserError
from sweet_rl.grading.report import compare, summarise, summary_text
from sweet_rl.records import Task, Trajectory

TASKS = [Task(f"task {i}", f"def f(): return {i}", {"test1": "f()"}, id=f"t{i}") for i in range(4)]


def dialogue(task, sample, reward, turns=2, ending="answered", **more):
    history = [{"role": "user", "content": "hello"}] + [{"role": "assistant", "content": "x"}] * turns
    return Trajectory(TASKS[task], history, "x", reward, id=f"t{task}-{sample}", ending=ending, **more)


def run_of(*successes):
    return [dialogue(i, 0, reward) for i, reward in enumerate(successes)]


def test_success_and_tests_passed_are_means_over_tasks():
    rows = [dialogue(0, 0, 1.0), dialogue(0, 1, 0.5), dialogue(1, 0, 0.0, turns=4), dialogue(1, 1, 0.0, turns=4)]
    summary = summarise(rows, k=2)
    assert summary["success"]["mean"] == 0.25 and summary["tests_passed"]["mean"] == 0.375
    assert summary["best_of_k"]["success"]["mean"] == 0.5 and summary["best_of_k"]["tests_passed"]["mean"] == 0.5
    assert summary["turns"] == 3.0


def test_failed_dialogues_and_ungradable_tasks_are_counted_apart():
    rows = [
        dialogue(0, 0, 1.0),
        dialogue(0, 1, None, ending="failed", failure={"kind": "timeout", "message": "", "side": "human"}),
        dialogue(1, 0, None, extra={"grade": {"ungradable": "random", "tests": [], "failure": None}}),
        dialogue(
            2, 0, 0.0, extra={"grade": {"failure": "no answer", "tests": [{"passed": False, "reason": "no answer"}]}}
        ),
    ]
    summary = summarise(rows, k=2)
    assert summary["graded"] == 2 and summary["success"]["mean"] == 0.5 and summary["success"]["tasks"] == 2
    assert summary["failed_dialogues"] == {"timeout": 1} and summary["ungradable_tasks"] == {"t1": "random"}
    assert summary["failures"] == {"no answer": 1} and summary["best_of_k"]["tasks_with_too_few"] == 2
    text = summary_text(summary)
    assert "t1: random" in text and "no answer 1" in text and "50.0 %" in text


def test_nothing_graded_gives_a_summary_without_figures():
    summary = summarise([dialogue(0, 0, None, ending="failed")])
    assert "success" not in summary and summary["failed_dialogues"] == {"unknown": 1}
    assert "0 graded" in summary_text(summary)


def test_the_difference_to_a_baseline_is_paired_by_task():
    comparison = compare({"base": [run_of(0, 0, 0, 1)], "new": [run_of(1, 1, 0.5, 1)]}, ["base"])
    base, new = comparison.rows
    assert base.success.mean == 0.25 and new.success.mean == 0.75 and new.tests_passed.mean == 0.875
    # success differs on two tasks, both in favour: of 4 sign patterns two are as far from 0
    assert new.differences["base"].mean == 0.5 and new.differences["base"].p == 0.5
    assert base.differences["base"] is None


def test_seeds_are_averaged_within_each_task():
    comparison = compare({"m": [run_of(1, 0, 0, 0), run_of(1, 1, 0, 0)]})
    row = comparison.rows[0]
    assert row.success.mean == 0.375 and row.success_by_seed == [0.25, 0.5] and row.success.tasks == 4
    assert row.seeds == 2


def test_a_task_without_a_graded_dialogue_in_one_run_is_left_out_of_all():
    gap = run_of(1, 1, 1, 0)
    gap[3] = dialogue(3, 0, None, ending="failed")
    comparison = compare({"a": [gap], "b": [run_of(1, 1, 1, 0)]}, ["a"])
    assert comparison.tasks == 3 and comparison.left_out == ["t3"]
    assert [row.success.mean for row in comparison.rows] == [1.0, 1.0]


def test_runs_on_different_tasks_are_refused():
    with pytest.raises(UserError, match="different tasks.*t3"):
        compare({"a": [run_of(1, 1, 1, 1)], "b": [run_of(1, 1, 1)]})


def test_an_unknown_baseline_is_refused():
    with pytest.raises(UserError, match="'x' is none of the runs"):
        compare({"a": [run_of(1)]}, ["x"])


def test_table_as_text_markdown_and_dict():
    comparison = compare({"zero-shot": [run_of(0, 0, 0, 1)], "SWEET-RL": [run_of(1, 1, 0, 1)]}, ["zero-shot"])
    text, markdown, row = comparison.text(), comparison.markdown(), comparison.to_dict()
    assert "success vs zero-shot" in text and "+50.0" in text and "4 tasks" in text
    lines = markdown.splitlines()
    assert len({line.count("|") for line in lines[:4]}) == 1 and lines[3].startswith("| SWEET-RL | 1 | 75.0 | 75.0 |")
    assert row["runs"][1]["difference_to"]["zero-shot"]["mean"] == 0.5
