"""The dialogues that the packaged agents imitated are the same bytes in every version.

The packaged agents were trained on them. A change here needs new agents and new figures.
"""

import hashlib
import json
from itertools import islice

import pytest

from lab.mini_agents import imitation
from sweet_rl.dialogues.mini.worlds import HARD


def digest(rows) -> str:
    return hashlib.sha256(json.dumps(list(rows), ensure_ascii=False).encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    "make, expected",
    [
        (lambda: islice(imitation.imitation_stream(0), 40), "13c83bc0121502a2"),
        (lambda: islice(imitation.imitation_stream(0, own=imitation.BETTER), 40), "91d775c6cca20997"),
        (lambda: islice(imitation.imitation_stream(0, world=HARD), 40), "0734aa10e5705bc8"),
    ],
    ids=["dialogues", "of the better agent", "hard dialogues"],
)
def test_what_a_seed_makes_is_what_it_always_made(make, expected):
    assert digest(make()) == expected
