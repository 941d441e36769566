"""The page tasks are the same bytes in every version: the agent was trained and the figures were measured on them."""

import hashlib
import json

from lab.pages.page_tasks import make_page_tasks


def test_what_a_seed_makes_is_what_it_always_made():
    tasks = json.dumps(list(make_page_tasks(40, seed=0)), ensure_ascii=False)
    assert hashlib.sha256(tasks.encode()).hexdigest()[:16] == "fb1cf7a4bbe6e3e0"
