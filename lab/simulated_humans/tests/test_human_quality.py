"""The figures of simulated humans, counted by hand."""

import pytest

from lab.simulated_humans.human_quality import check_claims, quality, quality_table, replies_of
from sweet_rl.dialogues.backend.hidden_tests import CodeGrader
from sweet_rl.dialogues.mini.tasks import make_tasks, rules_of
from sweet_rl.dialogues.mini.worlds import TOPIC_BY_NAME
from sweet_rl.runs.records import Task, Trajectory
from tests.support.tables import unpadded

ROW = make_tasks(1, seed=1)[0]
TASK = Task.from_dict(ROW)
RULE = rules_of(ROW["mini"])[0]
QUESTION = TOPIC_BY_NAME[RULE.topic].questions[0]
FLAG = TASK.problem_description.rpartition(", ")[2].rstrip(")")
TRUE = RULE.sentences(FLAG)[0]
WRONG = type(RULE)(RULE.topic, RULE.form, RULE.a + 1, RULE.b).sentences(FLAG)[0]
CODE = f"It says {RULE.line(FLAG)}"


def dialogue(number: int, *replies: tuple[str, str], leaks: int = 0) -> Trajectory:
    history = [{"role": "user", "content": "instructions"}]
    for word, reply in replies:
        history += [{"role": "assistant", "content": QUESTION, "oracle": word}, {"role": "user", "content": reply}]
    history.append({"role": "assistant", "content": "I WANT TO ANSWER: no"})
    human = {"name": "one", "hash": "1" * 16}
    return Trajectory(TASK, history, "no", id=f"d{number}", leaks=leaks, human=human)


TRAJECTORIES = [
    dialogue(0, ("useful", TRUE), ("repeated", WRONG)),
    dialogue(1, ("useful", CODE), ("repeated", CODE), leaks=3),
    dialogue(2, ("useful", "I don't know."), ("useless", "I don't know. Just write it.")),
]


@pytest.fixture(scope="module")
def rows():
    found = [row for trajectory in TRAJECTORIES for row in replies_of(trajectory)]
    claims = [row for row in found if row["claim"] is not None]
    with CodeGrader(workers=1) as grader:
        verdicts = check_claims([(TASK, row["claim"]) for row in claims], grader)
    checked = {row["id"]: verdict for row, verdict in zip(claims, verdicts, strict=True)}
    return [row | {"contradicts": checked.get(row["id"])} for row in found]


def test_each_reply_is_judged_by_itself(rows):
    assert [row["id"] for row in rows] == ["d0.2", "d0.4", "d1.2", "d1.4", "d2.2", "d2.4"]
    assert [row["contradicts"] for row in rows] == [False, True, False, False, None, None]
    assert [row["leak"] for row in rows] == [False, False, True, False, False, False]  # what was shown leaks no more
    assert [row["unknown"] for row in rows] == [False] * 4 + [True] * 2
    assert [row["ends_help"] for row in rows] == [False] * 5 + [True]
    assert [row["settled"] for row in rows] == [True] * 5 + [False]


def test_the_figures_of_a_human_are_shares_of_its_replies(rows):
    (figures,) = quality(rows, TRAJECTORIES)
    assert figures | {"characters": 0} == {
        "human": "one (11111111)", "dialogues": 3, "replies": 6, "characters": 0, "leaks": 1 / 6,
        "rejected_drafts": 2 / 8, "unknown": 2 / 6, "unknown_settled": 1 / 2, "ends_help": 1 / 6, "checked": 4,
        "contradictions": 1 / 4,
    }  # fmt: skip
    heading, _, line = unpadded(quality_table([figures]).markdown()).splitlines()
    assert heading.startswith("| human | dialogues | replies |")
    assert line.endswith("| 16.7 | 25.0 | 33.3 | 50.0 | 16.7 | 4 | 25.0 |")
