"""Which frontend dialogues are graded, and what counts as a failure."""

from sweet_rl.records import Task, Trajectory
from sweet_rl.rewards.base import Grade
from sweet_rl.rewards.evaluate_pages import best_of_tasks, grade_page_trajectories

TASK, OTHER = Task("a page", "<html>a</html>"), Task("another page", "<html>b</html>")


class Grader:
    """Grades as the answer asks; real pages are graded in tests/integration/rewards/test_html.py."""

    def grade_many(self, jobs):
        for task, answer in jobs:
            evidence = {"similarity": None, "encoder": "e"}
            if task is OTHER:
                yield Grade(None, ungradable="timeout", evidence=evidence | {"message": "", "side": "reference"})
            elif answer is None:
                yield Grade(0.0, failure="no answer", evidence=evidence | {"message": "", "side": "answer"})
            elif answer == "slow":
                yield Grade(None, machine="no processor", evidence=evidence | {"message": "", "side": "answer"})
            else:
                yield Grade(float(answer), evidence=evidence | {"similarity": float(answer)})


def trajectory(sample: int, answer: str | None, ending: str = "answered", task: Task = TASK, **more) -> Trajectory:
    said = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "x"}]
    return Trajectory(task, said, answer=answer, id=f"{task.id}-{sample}", ending=ending, **more)


def graded() -> list[Trajectory]:
    failure = {"kind": "connection", "message": "gone", "side": "human"}
    rows = [
        trajectory(0, None, "failed", failure=failure, reward=0.3, grade={"failure": None}, extra={"kept": 1}),
        trajectory(1, "0.5"),
        trajectory(2, "0.9", "turn_limit"),
        trajectory(3, None, "failed", failure=failure),
        trajectory(4, "0.7"),
        trajectory(5, "0.4", task=OTHER),
        trajectory(6, None, "failed", failure=failure),
        trajectory(7, "slow"),
    ]
    return list(grade_page_trajectories(rows, Grader()))


def test_the_order_stays_and_every_dialogue_has_the_reward_it_earned():
    rows = graded()
    assert [row.id.rpartition("-")[2] for row in rows] == list("01234567")
    assert [row.reward for row in rows] == [None, 0.5, 0.0, None, 0.7, None, None, None]


def test_a_failed_dialogue_is_not_the_agents_and_loses_an_earlier_grade():
    first = graded()[0]
    assert (first.extra, first.reward, first.grade) == ({"kept": 1}, None, None)


def test_an_unfinished_dialogue_gave_no_answer_whatever_it_showed_last():
    assert graded()[2].grade["failure"] == "no answer"


def test_the_best_dialogue_of_each_task_is_one_that_earned_something():
    assert [row.reward for row in best_of_tasks(graded())] == [0.7]
    assert best_of_tasks([trajectory(0, None, "turn_limit", reward=0.0)]) == []
