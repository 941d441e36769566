"""The released grader's rules, for comparison with its figures only. Answers are contained as everywhere.

Kept of the released grader: code is executed inside a function's scope, so top-level imports, helpers and recursion
raise NameError; an answer with a forbidden word scores 0; None never passes; floats must be equal to the last digit;
NaN, arrays and objects without `==` are never equal; of `f(1) == 3` only the truth is compared; a test whose reference
fails cannot be passed, and the task is gradable all the same.

Not kept: it ran in the grader's process (an exit ended the run, a lying `__eq__` passed), and on Python 3.13 and later
its scoping makes every answer fail. How it found the code in an answer is unknown; `extract_code.py` is used.
"""

from collections import Counter, OrderedDict
from dataclasses import replace
from datetime import timedelta
from typing import cast

from sweet_rl.dialogues.backend.calls import HiddenTest
from sweet_rl.dialogues.backend.hidden_tests import CodeGrader, Reference, read_reference, result
from sweet_rl.dialogues.protocols import Grade
from sweet_rl.runs.records import Task
from sweet_rl.sandbox.sandbox import Outcome
from sweet_rl.sandbox.values import as_number, decode, findable, same

FORBIDDEN_WORDS = ("print(", "write", "open(")
LISTS = {"l": list, "t": tuple}
DICTS = {"d": dict, "od": OrderedDict, "Counter": Counter}


class PaperGrader(CodeGrader):
    """`CodeGrader` with the release's rules. The failure of an answer with a forbidden word is "banned word"."""

    scope, rules = "function", "paper"

    def describe(self) -> str:
        return f"{super().describe()}; scored by the release's rules, for comparison only"

    def _grade_code(self, reference: Reference, texts: list[str]) -> Grade:
        word = next((word for word in FORBIDDEN_WORDS if word in texts[0]), None)
        if word is not None:
            return self._all_failed(reference, "banned word", f"{word!r} is in the code")
        return super()._grade_code(reference, texts)

    def _compare(self, name: str, test: HiddenTest, expected: bytes | None, outcome: Outcome) -> dict:
        reason, content = outcome
        if expected is None:
            return result(name, "reference failed")
        if reason != "value":
            return result(name, reason, str(content))
        if test.literal is None:
            return self._compare_trees(name, expected, cast(bytes, content))
        truth = _equal_texts(cast(bytes, content), test.literal)
        if truth == _equal_texts(expected, test.literal):
            return result(name)
        return result(name, "wrong value", f"expected {not truth}, got {truth}")

    def equal(self, expected, got) -> bool:
        return equal_as_released(expected, got)

    def _run_reference(self, task: Task) -> Reference:
        """Run the reference once; a test that it fails has no result."""
        reference = read_reference(task)
        if reference.ungradable:
            return reference
        outcomes = self._run("reference", 0, reference, [task.ground_truth])
        values = [cast(bytes, content) if reason == "value" else None for reason, content in outcomes]
        return replace(reference, values=values)


def equal_as_released(expected, got) -> bool:
    """Whether two trees stand for values that are equal by `==` alone and are not None."""
    return expected is not None and _equal(expected, got)


def _equal(expected, got) -> bool:
    try:
        return bool(_value(expected) == _value(got))
    except (TypeError, ValueError, LookupError, ArithmeticError, RecursionError):
        return False


def _equal_texts(text: bytes, literal: bytes) -> bool:
    try:
        return _equal(decode(text), decode(literal))
    except ValueError:  # no text of a value
        return False


def _value(tree):
    """The Python value of a tree of plain data. Raises ValueError for a type without `==` of its own."""
    if type(tree) is not list:
        return tree
    number = as_number(tree)
    if number is not None:
        return number
    tag, items = tree[0], tree[1:]
    if tag in ("l", "t"):
        return LISTS[tag](map(_value, items))
    if tag == "S":
        return frozenset(findable(map(_value, items)))
    if tag == "keys":
        return dict.fromkeys(findable(map(_value, items))).keys()
    if tag in DICTS:
        pairs = zip(findable(_value(key) for key, _ in items), (_value(value) for _, value in items), strict=True)
        return DICTS[tag](dict(pairs))
    if tag == "td":
        return timedelta(microseconds=items[0])
    if tag in ("sl", "ar"):
        return (tag, *map(_value, items))
    if tag in ("dt", "da", "ti", "y", "u", "sp", "q", "r"):
        return _Flat(tree)
    raise ValueError(f"{tag!r} values are never equal")


class _Flat:
    """A value that `same` compares exactly."""

    def __init__(self, tree):
        self.tree = tree

    def __eq__(self, other):
        return isinstance(other, _Flat) and same(self.tree, other.tree)

    def __hash__(self):
        return hash(self.tree[0])
