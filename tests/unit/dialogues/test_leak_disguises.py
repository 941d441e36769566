"""Code of a reference is found however it is handed out, and plain language about it is not taken for code."""

import os
from pathlib import Path

import pytest

from benchmarks.leaks import DISGUISES, honest, pieces
from sweet_rl.dialogues.leaks import gives_away
from sweet_rl.runs.records import Task, read_records

COLBENCH = Path(os.environ.get("SWEET_RL_COLBENCH", "")) / "backend_dev.jsonl"
REFERENCES = (
    "def pace(distance, minutes): return (distance / minutes) * 60\n",  # parentheses that Python does not write
    "def cost(rooms, nights=(1 + 1)):\n    return ((rooms * 80) + (nights * 5))\n",
    "def owns(item, owned): return item in owned\n",  # no operator at all
    "def age(born, died):\n    return died - born\n",  # shorter than a run and than a statement
    "def share(rows):\n    total = sum(n for _, n in rows)\n    return total / len(rows)\n",
    "def fine(a, b): fee = (a * 2) + (b * 3); return fee;\n",
    "def verdict(hot, wet):\n    if hot and wet:\n        return 'It is humid'\n    elif hot and not wet:\n"
    "        return 'It is dry'\n    else:\n        return 'It is cold'\n",
    'def rate(x):\n    """Rate it (1 - 2) * 3."""\n    x = 0x10 + 1_000 * x  # (a + b) * c\n'
    '    return x if x < 1e6 else {"a": x}["a"]\n',
)


NOT_FOUND = ("without parentheses", "each word in bold", "each word in tags")


def task(reference: str) -> Task:
    return Task("Please write the function. The signature is: " + reference.split(":")[0], reference)


@pytest.mark.parametrize("name", [name for name in DISGUISES if name not in NOT_FOUND])
@pytest.mark.parametrize("reference", REFERENCES)
def test_a_whole_reference_is_found_in_every_disguise(reference, name):
    assert gives_away(DISGUISES[name](reference), reference, task(reference).problem_description)


@pytest.mark.parametrize("reference", REFERENCES)
def test_lines_of_code_are_found_and_honest_replies_are_no_leak(reference):
    lines = [piece for kind, piece in pieces(reference) if kind in ("three lines", "a line of code")]
    assert [line for line in lines if not gives_away(line, reference, task(reference).problem_description)] == []
    assert [reply for _, reply in honest(task(reference)) if gives_away(reply, reference, "")] == []


def test_a_reference_to_a_character_of_thousands_of_digits_ends_no_dialogue():
    code, endless = "def fee(hours, day):\n    return hours * 3 + day", "&#" + "1" * 5000 + ";"
    assert gives_away(f"{endless} {code}", code, "") and not gives_away(endless, code, "")


def test_a_quoted_text_with_hyphens_and_colons_is_no_code():
    reference = "def f(x):\n    return x if x else 'Note: an all-in-one (two-part) set - see: terms'\n"
    assert not gives_away("It says 'Note: an all-in-one (two-part) set - see: terms'.", reference, "")


def test_what_the_agent_showed_in_another_layout_may_be_repeated():
    reference = "def f(a, b):\n    fee = (a + b) * 2 - 1\n    return fee\n"
    assert not gives_away("Yes, fee = (a + b) * 2 - 1.", reference, "Is it `fee` = ( a + b )*2 - 1 ?")
    assert not gives_away("Yes, fee = (a + b) * 2 - 1.", reference, "1. fee = (a\n   + b) * 2\n   - 1")


@pytest.mark.skipif(not COLBENCH.is_file(), reason="ColBench is not here: set SWEET_RL_COLBENCH to its folder")
def test_the_rates_of_the_manual_hold_on_real_tasks():
    tasks = read_records(COLBENCH, Task)[::3]
    missed = [t.id for t in tasks for name, hide in DISGUISES.items() if name not in NOT_FOUND
              if not gives_away(hide(t.ground_truth), t.ground_truth, t.problem_description)]  # fmt: skip
    assert missed == []
    assert [reply for t in tasks for _, reply in honest(t) if gives_away(reply, t.ground_truth, "")] == []
