"""The page tasks, and the dialogues that the agent imitated, are the same bytes in every version.

The agent was trained on them and the figures in results/ were measured on them.
"""

import hashlib
import json
from itertools import islice

import pytest

from lab.pages.page_imitation import imitation_stream
from lab.pages.page_tasks import make_page_tasks


@pytest.mark.parametrize(
    "make, expected",
    [
        (lambda: make_page_tasks(40, seed=0), "fb1cf7a4bbe6e3e0"),
        (lambda: islice(imitation_stream(0), 40), "14a79619bb432779"),
    ],
    ids=["tasks", "dialogues"],
)
def test_what_a_seed_makes_is_what_it_always_made(make, expected):
    assert hashlib.sha256(json.dumps(list(make()), ensure_ascii=False).encode()).hexdigest()[:16] == expected
