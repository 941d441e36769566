"""What counts as giving the reference solution away, and what does not."""

import pytest

from sweet_rl.dialogues.leaks import gives_away

REFERENCE = '''def late_fee(days, member):
    """Compute the late fee for the given number of days and round it."""
    # Members pay half (of the fee), but never below 1 (one).
    fee = days * 0.25 + 1.5
    if member and days > 7:
        fee = fee / 2
    return round(min(fee, 20), 2)
'''
ASKED = "Write a function for late fees. The signature is: def late_fee(days, member)"


@pytest.mark.parametrize(
    "reply",
    [
        "You need: fee = days * 0.25 + 1.5",
        "Sure!\n```python\n    return round(min(fee, 20), 2)\n```",
        "It says `if member and days > 7:` there.",
        REFERENCE,
    ],
)
def test_code_of_the_reference_is_a_leak(reply):
    assert gives_away(reply, REFERENCE, ASKED)


@pytest.mark.parametrize(
    "reply",
    [
        "The fee is a quarter for each day plus 1.5, and at most 20.",
        "Members who are more than 7 days late pay half.",
        "Compute the late fee for the given number of days and round it.",
        "Members pay half (of the fee), but never below 1 (one).",
        "The signature is def late_fee(days, member), as I said.",
        "I don't know.",
        "days, member, fee, 0.25, 1.5, 7, 20, 2",
    ],
)
def test_plain_language_comments_and_the_public_signature_are_none(reply):
    assert not gives_away(reply, REFERENCE, ASKED)


def test_code_that_the_agent_showed_itself_may_be_repeated():
    line = "fee = days * 0.25 + 1.5"
    assert not gives_away(f"Yes, {line} is right.", REFERENCE, f"{ASKED} Is it {line}?")


LONG = "total = alpha + beta * gamma - delta / epsilon"  # 11 tokens on a line, 5 of them operators


@pytest.mark.parametrize(
    ("reply", "leak"),
    [
        ("alpha + beta * gamma - delta /", True),  # 8 tokens in a row
        ("alpha + beta * gamma - delta", False),  # 7
        ("alpha + beta * gamma", False),
    ],
)
def test_eight_tokens_in_a_row_are_a_leak_and_seven_are_none(reply, leak):
    assert gives_away(reply, LONG, "") is leak


@pytest.mark.parametrize(
    ("statement", "leak"),
    [
        ("a = b + c", True),  # 5 tokens, 2 operators
        ("a += b", False),  # 4 tokens
        ("a = b", False),
        ("return a, b - c", False),  # 1 operator: the comma is prose, too
        ("return -a - c", True),
    ],
)
def test_a_whole_statement_is_a_leak_if_it_is_long_enough_and_has_operators(statement, leak):
    assert gives_away(f"It is {statement} there.", f"x = 1\n{statement}\n", "") is leak


def test_a_signature_and_a_docstring_are_no_part_of_the_solution():
    source = 'async def f(a, b=(1 + 2) * 3):\n    """Add (a + b) * 2 - 1 and so on."""\n    return a\n'
    assert not gives_away("async def f(a, b=(1 + 2) * 3): Add (a + b) * 2 - 1 and so on.", source, "")
    assert not gives_away("def f(a, b=(1 + 2)):", "def f(a, b=(1 + 2)):\n    return (\n", "")
