"""Checks of synthesised tasks in the sandbox."""

import pytest

from lab.task_synthesis.synthesis import Dropped, check
from lab.task_synthesis.tests.test_synthesis import task
from sweet_rl.dialogues.backend.hidden_tests import CodeGrader


@pytest.fixture(scope="module")
def grader():
    with CodeGrader(timeout=0.2, workers=1) as grader:
        yield grader


def test_a_task_whose_reference_works_passes(grader):
    check(task(), grader)


@pytest.mark.parametrize(
    "reference, reason",
    [
        ("def fee(amount, member):\n    return 1 // (amount - 5)\n", "the reference fails"),
        ("def fee(amount, member):\n    while True:\n        pass\n", "the reference fails"),
        ("import random\ndef fee(amount, member):\n    return random.random()\n", "other results on another run"),
        ("def fee(amount, member):\n    return None\n", "trivial"),
        ("def fee(amount, member):\n    return 'always the same'\n", "trivial"),
        ("def fee(amount, member):\n    return amount\n", "trivial"),
        ("def fee(amount, member):\n    return {}\n", "trivial"),
    ],
)
def test_what_does_not_hold_in_the_sandbox_is_dropped_for_its_reason(grader, reference, reason):
    with pytest.raises(Dropped, match=reason):
        check(task(reference), grader)
