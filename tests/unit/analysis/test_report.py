"""One run's figures, by hand-computed numbers."""

from sweet_rl.analysis.report import summarise, summary_text
from sweet_rl.records import Task, Trajectory

TASKS = [Task(f"task {i}", f"def f(): return {i}", {"test1": "f()"}, id=f"t{i}") for i in range(4)]


def dialogue(task, sample, reward, turns=2, ending="answered", **more):
    history = [{"role": "user", "content": "hello"}] + [{"role": "assistant", "content": "x"}] * turns
    return Trajectory(TASKS[task], history, "x", reward, id=f"t{task}-{sample}", ending=ending, **more)


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
        dialogue(1, 0, None, grade={"ungradable": "random", "tests": [], "failure": None}),
        dialogue(
            2, 0, 0.0, grade={"failure": "no answer", "tests": [{"passed": False, "reason": "no answer"}]}
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
