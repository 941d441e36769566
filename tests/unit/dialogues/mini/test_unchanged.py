"""The mini tasks are the same bytes in every version.

The figures in results/ were measured on them. A change here needs new agents and new figures.
"""

import hashlib
import json

import pytest

from sweet_rl.dialogues.mini.tasks import make_tasks
from sweet_rl.dialogues.mini.worlds import HARD


def digest(rows) -> str:
    return hashlib.sha256(json.dumps(list(rows), ensure_ascii=False).encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    "make, expected",
    [
        (lambda: make_tasks(40, seed=0), "d9f1232f0443600d"),
        (lambda: make_tasks(40, seed=0, world=HARD), "7454b4b252e4f813"),
    ],
    ids=["tasks", "hard tasks"],
)
def test_what_a_seed_makes_is_what_it_always_made(make, expected):
    assert digest(make()) == expected
