"""Which trajectories are graded, and which of two graded trajectories is preferred."""

import pytest

from sweet_rl.dialogues import Grade
from sweet_rl.dialogues.sibling_pairs import sibling_pairs
from sweet_rl.evaluation.evaluate import best_of_tasks, first_tasks, grade_trajectories
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, Trajectory

TASK, OTHER = Task("a task", "1.0"), Task("another task", "0.5")
FAILURE = {"kind": "connection", "message": "gone", "side": "human"}


class Grader:
    """Gives the reward that the answer names."""

    def grade_many(self, jobs):
        for task, answer in jobs:
            if task is OTHER:
                yield Grade(None, ungradable="no reference")
            elif answer is None:
                yield Grade(0.0, failure="no answer")
            elif answer == "slow":
                yield Grade(None, machine="ran out of wall time")
            else:
                yield Grade(float(answer), evidence={"seen": answer})


def trajectory(sample: int, answer: str | None = None, ending: str = "answered", task: Task = TASK, **more):
    history = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "x"}]
    return Trajectory(task, history, answer=answer, id=f"{task.id}-{sample}", ending=ending, **more)


def graded() -> list[Trajectory]:
    rows = [
        trajectory(0, None, "failed", failure=FAILURE, reward=0.3, grade={"failure": None}, extra={"kept": 1}),
        trajectory(1, "0.5"),
        trajectory(2, "0.9", "turn_limit"),
        trajectory(3, None, "failed", failure=FAILURE),
        trajectory(4, "0.7", reward=0.1),
        trajectory(5, "0.4", task=OTHER),
        trajectory(6, "slow"),
        trajectory(7, None, "failed", failure=FAILURE),
        trajectory(8, None, "failed", failure=FAILURE),
    ]
    return list(grade_trajectories(rows, Grader()))


def test_the_order_stays_and_every_dialogue_has_the_reward_it_earned():
    rows = graded()
    assert [row.id.rpartition("-")[2] for row in rows] == list("012345678")
    assert [row.reward for row in rows] == [None, 0.5, 0.0, None, 0.7, None, None, None, None]


def test_a_failed_dialogue_is_not_graded_and_loses_an_earlier_grade():
    first = graded()[0]
    assert (first.reward, first.grade, first.extra) == (None, None, {"kept": 1})


def test_the_grade_holds_the_evidence_and_who_is_to_blame():
    rows = graded()
    assert rows[1].grade == {"failure": None, "ungradable": None, "seen": "0.5"}
    assert rows[2].grade["failure"] == "no answer"
    assert rows[5].grade["ungradable"] == "no reference"
    assert rows[6].grade["machine"] == "ran out of wall time"


def test_the_first_tasks_come_with_all_their_trajectories():
    rows = [trajectory(0), trajectory(0, task=OTHER), trajectory(1)]
    assert first_tasks(rows, 1) == [rows[0], rows[2]]
    assert first_tasks(rows, 2) == first_tasks(rows, None) == rows
    with pytest.raises(UserError, match="at least 1"):
        first_tasks(rows, 0)


def test_the_best_dialogue_of_each_task_is_one_that_earned_something():
    assert [row.reward for row in best_of_tasks(graded())] == [0.7]
    assert best_of_tasks([trajectory(0, None, "turn_limit", reward=0.0)]) == []
    first, equal = trajectory(0, reward=0.4), trajectory(1, reward=0.4)
    assert best_of_tasks([first, equal]) == [first]


def rewards_of_pairs(*rewards: float | None, min_gap: float | None = None) -> list[tuple]:
    rows = [trajectory(sample, reward=reward) for sample, reward in enumerate(rewards)]
    return [(a.reward, b.reward) for a, b in sibling_pairs(rows, min_gap)]


def test_only_a_reward_of_one_is_preferred_without_a_gap():
    assert rewards_of_pairs(1.0, 0.9, 0.5) == [(1.0, 0.9), (1.0, 0.5)]
    assert rewards_of_pairs(1.0, 1.0) == rewards_of_pairs(0.9, 0.5) == []


def test_a_gap_prefers_every_reward_that_is_so_much_higher():
    assert rewards_of_pairs(0.9, 0.8, 0.75, min_gap=0.1) == [(0.9, 0.8), (0.9, 0.75)]
    assert rewards_of_pairs(0.5, 0.5, min_gap=0.1) == []


def test_pairs_are_of_one_task_and_of_graded_dialogues_with_a_turn():
    assert rewards_of_pairs(1.0, None) == []
    assert list(sibling_pairs([trajectory(0, reward=1.0), trajectory(0, reward=0.0, task=OTHER)])) == []
    failed = trajectory(1, ending="failed", reward=0.0)
    silent = Trajectory(TASK, [{"role": "user", "content": "?"}], reward=0.0, id="silent", ending="answered")
    assert list(sibling_pairs([trajectory(0, reward=1.0), failed, silent])) == []
