"""What each label prefers, and how critics are measured, by hand."""

from __future__ import annotations

import random

import pytest

from lab.pretraining.measure import dialogues
from lab.pretraining.placebo_pairs import LABELS, labelled, sets, turns
from sweet_rl.runs.records import PreferencePair, Task, Trajectory


def side(*messages: str) -> list[dict]:
    return [{"text": "wish", "train": False}, *({"text": text, "train": True} for text in messages)]


ANSWER = "I WANT TO ANSWER: x"
PAIRS = {
    "longer wins": PreferencePair(side("q", ANSWER), side(ANSWER), task_id="a"),
    "shorter wins": PreferencePair(side(ANSWER), side("q", "q"), task_id="a"),
    "equal": PreferencePair(side("q", ANSWER), side("q", "q"), task_id="b"),
    "equal answers": PreferencePair(side("q", ANSWER), side("p", ANSWER), task_id="b"),
}


@pytest.mark.parametrize(("label", "kept", "exchanged"), [
    ("true", list(PAIRS), []),
    ("longer", ["longer wins", "shorter wins"], ["shorter wins"]),
    ("equal", ["equal", "equal answers"], []),
    ("answered", ["equal answers"], []),
])  # fmt: skip
def test_what_a_label_prefers(label, kept, exchanged):
    found = {name: labelled(pair, label, random.Random(0)) for name, pair in PAIRS.items()}
    assert [name for name, pair in found.items() if pair] == kept
    for name in kept:
        assert turns(found[name]) == (turns(PAIRS[name])[::-1] if name in exchanged else turns(PAIRS[name]))


def test_a_coin_exchanges_half_of_the_pairs():
    draw = random.Random(0)
    exchanged = [labelled(PAIRS["equal"], "chance", draw).chosen == PAIRS["equal"].rejected for _ in range(400)]
    assert 150 < sum(exchanged) < 250


def test_every_label_has_equally_many_pairs_and_at_most_so_many_of_a_task():
    own = [
        PreferencePair(p.chosen, p.rejected, task_id=f"{task}{p.task_id}") for task in range(9) for p in PAIRS.values()
    ]
    found = sets(own, per_task=1, seed=0)
    assert {label: len(pairs) for label, pairs in found.items()} == dict.fromkeys(LABELS, 9)
    assert all(len({pair.task_id for pair in pairs}) == 9 for pairs in found.values())
    assert found == sets(own, per_task=1, seed=0) != sets(own, per_task=1, seed=1)


def test_dialogues_are_compared_by_their_sums_within_a_task():
    def dialogue(task: str, reward: float, *credit: float) -> Trajectory:
        own = Task.from_dict({"id": task, "problem_description": "", "ground_truth": ""})
        return Trajectory(own, [], reward=reward, turn_credit=list(credit))

    found = dialogues(
        [dialogue("a", 1.0, 0.1, 0.1), dialogue("a", 0.0, 0.3), dialogue("b", 0.0, 9.0), dialogue("a", 0.0, 0.0)]
    )
    assert found == {"success": 50.0, "longer": 50.0}
