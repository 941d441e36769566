"""Code of a reference is found however it is handed out, and plain language about it is not taken for code."""

import ast
import html
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

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


COMMENTS = ("#", "def ", '"""')
DISGUISES: dict[str, Callable[[str], str]] = {
    "as it is written": str,
    "in a code fence": lambda code: f"Sure, here it is:\n```python\n{code}\n```",
    "as Python writes it": lambda code: ast.unparse(ast.parse(code)),
    "other quotation marks": lambda code: code.translate(str.maketrans("'\"", "\"'")),
    "other whitespace": lambda code: re.sub(r"[ ]", "\u00a0\u200b", code.replace("    ", "\t")),
    "all on one line": lambda code: " ; ".join(line.strip() for line in code.splitlines() if "#" not in line),
    "numbered lines": lambda code: "\n".join(f"{number}. {line}" for number, line in enumerate(code.splitlines(), 1)),
    "escaped for markdown": lambda code: re.sub(r"([*_])", r"\\\1", code),
    "escaped for HTML": html.escape,
    "in capitals": str.upper,
    "full-width signs": lambda code: "".join(chr(ord(one) + 0xFEE0) if one in "()=+-*/<>[]:" else one for one in code),
}
HONEST = (
    "It divides the distance by the minutes, times sixty.",
    "The fee is two a and three b, added.",
    "It is the total divided by the number of rows.",
    "When hot and wet: 'It is humid'.",
    "Rate it (1 - 2) * 3.",
)


def lines_of_code(reference: str) -> list[str]:
    """Three lines in a row, and single lines with two operators; signatures and comments are none."""
    lines = [line for line in reference.splitlines() if line.strip() and not line.strip().startswith(COMMENTS)]
    found = ["\n".join(lines[start : start + 3]) for start in range(len(lines) - 2)]
    for line in lines:
        tokens = re.findall(r"\d[\d.]*|\w+|[^\w\s]", line)
        if len(tokens) >= 5 and sum(token in "+-*/%<>=()[]{}" for token in tokens) >= 2:
            found.append(line)
    return found


def task(reference: str) -> Task:
    return Task("Please write the function. The signature is: " + reference.split(":")[0], reference)


@pytest.mark.parametrize("name", DISGUISES)
@pytest.mark.parametrize("reference", REFERENCES)
def test_a_whole_reference_is_found_in_every_disguise(reference, name):
    assert gives_away(DISGUISES[name](reference), reference, task(reference).problem_description)


@pytest.mark.parametrize("reference", REFERENCES)
def test_lines_of_code_are_found_and_honest_replies_are_no_leak(reference):
    lines = lines_of_code(reference)
    assert [line for line in lines if not gives_away(line, reference, task(reference).problem_description)] == []
    assert [reply for reply in HONEST if gives_away(reply, reference, "")] == []


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
    missed = [
        t.id
        for t in tasks
        for hide in DISGUISES.values()
        if not gives_away(hide(t.ground_truth), t.ground_truth, t.problem_description)
    ]
    assert missed == []
    assert [t.id for t in tasks if gives_away(t.problem_description, t.ground_truth, "")] == []
