"""What counts as giving the reference solution away, and what does not."""

import pytest

from sweet_rl.humans.leaks import gives_away

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


def test_a_reference_that_does_not_parse_is_still_compared():
    assert gives_away("print fee * days + (1 / 2)", "print fee * days + (1 / 2)\n", "")
