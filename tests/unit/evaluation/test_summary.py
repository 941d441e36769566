"""The summary of one run, with hand-computed numbers."""

import pytest

from sweet_rl.evaluation.summary import summarise_rewards, summary_text
from sweet_rl.runs.records import Task, Trajectory

TASKS = [Task(f"task {i}", f"def f(): return {i}", {"test1": "f()"}, id=f"t{i}") for i in range(4)]


def dialogue(task, sample, reward, turns=2, ending="answered", **more):
    history = [{"role": "user", "content": "hello"}] + [{"role": "assistant", "content": "x"}] * turns
    return Trajectory(TASKS[task], history, "x", reward, id=f"t{task}-{sample}", ending=ending, **more)


def test_success_and_tests_passed_are_means_over_tasks():
    rows = [dialogue(0, 0, 1.0), dialogue(0, 1, 0.5), dialogue(1, 0, 0.0, turns=4), dialogue(1, 1, 0.0, turns=4)]
    summary = summarise_rewards(rows, k=2)
    assert summary["success"]["mean"] == 0.25 and summary["tests_passed"]["mean"] == 0.375
    assert summary["best_of_k"]["success"]["mean"] == 0.5 and summary["best_of_k"]["tests_passed"]["mean"] == 0.5
    assert summary["turns"] == 3.0


def test_an_answer_that_fails_tests_is_a_wrong_answer_and_a_reward_below_1_of_ones_own_is_no_failure():
    tests = [{"passed": False, "reason": "wrong value"}]
    rows = [dialogue(0, 0, 1.0, grade={"tests": [], "failure": None}), dialogue(1, 0, 0.0, grade={"tests": tests})]
    assert summarise_rewards(rows)["failures"] == {"wrong answer": 1}
    assert summarise_rewards([Trajectory(PAGES[0], [], "x", 0.5, id="p0-0", ending="answered")])["failures"] == {}


def test_answers_that_a_module_was_missing_for_are_counted_once_each():
    failed = {"passed": False, "reason": "exception", "message": "ModuleNotFoundError: No module named 'numpy.ma'"}
    rows = [dialogue(task, 0, 0.0, grade={"failure": "exception", "tests": [failed] * 3}) for task in range(2)]
    summary = summarise_rewards(rows)
    assert summary["missing_modules"] == {"numpy.ma": 2} and "missing for: numpy.ma 2" in summary_text(summary)


def test_failed_dialogues_and_ungradable_tasks_are_counted_apart():
    rows = [
        dialogue(0, 0, 1.0),
        dialogue(0, 1, None, ending="failed", failure={"kind": "timeout", "message": "", "side": "human"}),
        dialogue(1, 0, None, grade={"ungradable": "random", "tests": [], "failure": None}),
        dialogue(2, 0, 0.0, grade={"failure": "no answer", "tests": [{"passed": False, "reason": "no answer"}]}),
    ]
    summary = summarise_rewards(rows, k=2)
    assert summary["graded"] == 2 and summary["success"]["mean"] == 0.5 and summary["success"]["tasks"] == 2
    assert summary["failed_dialogues"] == {"timeout": 1} and summary["ungradable_tasks"] == {"t1": "random"}
    assert summary["failures"] == {"no answer": 1} and summary["best_of_k"]["tasks_with_too_few"] == 2
    text = summary_text(summary)
    assert "t1: random" in text and "no answer 1" in text and "50.0 %" in text


def test_nothing_graded_gives_a_summary_without_figures():
    summary = summarise_rewards([dialogue(0, 0, None, ending="failed")])
    assert "success" not in summary and summary["failed_dialogues"] == {"unknown": 1}
    assert "0 graded" in summary_text(summary)


PAGES = [Task(f"page {i}", f"<html>{i}</html>", id=f"p{i}") for i in range(4)]


def page(task, sample, reward, **grade):
    return Trajectory(
        PAGES[task], [], "x", reward, id=f"p{task}-{sample}", ending="answered",
        grade={"failure": None, "ungradable": None, "encoder": "e", "similarity": reward, **grade},
    )  # fmt: skip


def test_pages_are_summarised_by_similarity_and_a_page_without_a_picture_counts_0():
    rows = [
        page(0, 0, 0.5), page(0, 1, 0.7), page(1, 0, 0.0, failure="no answer", side="answer"),
        page(2, 0, None, ungradable="timeout", side="reference"),
        Trajectory(PAGES[3], [], None, None, id="p3-0", ending="failed", failure={"kind": "connection"}),
    ]  # fmt: skip
    summary = summarise_rewards(rows, k=2)
    assert summary["cosine_similarity"]["mean"] == pytest.approx(0.3) and summary["encoder"] == "e"
    assert "success" not in summary and summary["failures"] == {"no answer": 1}
    assert summary["ungradable_tasks"] == {"p2": "timeout"} and summary["failed_dialogues"] == {"connection": 1}
    assert summary["best_of_k"]["cosine_similarity"]["mean"] == 0.7
    assert summary["best_of_k"]["tasks_with_too_few"] == 1
    text = summary_text(summary | {"win_rate": {"mean": 0.6, "low": 0.5, "high": 0.7, "baseline": "b.jsonl"}})
    for line in ("cosine similarity 30.0 %", "image encoder     e", "win rate          60.0 %", "best of 2, cosine"):
        assert line in text, line


def test_a_failure_of_the_machine_is_counted_apart_and_is_no_reward():
    slow = {"failure": None, "ungradable": None, "machine": "ran out of wall time: 0.2 of 1.0 s of CPU time in 3.0 s"}
    rows = [dialogue(0, 0, 1.0), dialogue(0, 1, None, grade=slow), dialogue(1, 0, None, grade={**slow, "tests": []})]
    summary = summarise_rewards(rows)
    assert summary["graded"] == 1 and summary["success"]["mean"] == 1.0 and summary["success"]["tasks"] == 1
    assert summary["machine_failures"] == {"ran out of wall time": 2} and summary["failures"] == {}
    assert "(--retry_failed grades them again): ran out of wall time 2" in summary_text(summary)
    assert "--retry_failed" not in summary_text(summarise_rewards(rows[:1]))


def test_a_grader_of_ones_own_is_summarised_by_reward_and_success():
    rows = [
        Trajectory(PAGES[i], [], "x", reward, id=f"p{i}-0", ending="answered", grade={"failure": None, "color": "red"})
        for i, reward in enumerate((1.0, 0.5))
    ]
    summary = summarise_rewards(rows)
    assert summary["reward"]["mean"] == 0.75 and summary["success"]["mean"] == 0.5
    assert "reward            75.0 %" in summary_text(summary) and "tests_passed" not in summary


def test_the_evidence_of_a_users_reward_is_not_taken_for_the_packages():
    evidence = {
        "grader": "mine.reward",
        "similarity": 0.5,
        "tests": [{"name": "a"}],
        "rules": "paper",
        "failure": "odd",
    }
    summary = summarise_rewards([Trajectory(TASKS[0], [], "x", 0.5, id="a-0", ending="answered", grade=evidence)])
    assert summary["reward"]["mean"] == 0.5 and summary["failures"] == {"odd": 1}
    assert not summary.keys() & {"cosine_similarity", "tests_passed", "rules"}
