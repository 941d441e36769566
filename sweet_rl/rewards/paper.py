"""The released grader's rules, for comparison with its figures only; contained as every other answer is.

What is kept of it: code is executed inside a function's scope, so that top-level imports, helpers and recursion raise
NameError; answers with a forbidden word score 0; None never passes; floats must be equal to the last digit, NaN, arrays
and objects without `==` never are; a test whose reference fails cannot be passed, and no task is ungradable.
What is not: it ran in the grader's process (an exit ended the run, a lying `__eq__` passed), and on Python 3.13 and
later its scoping makes every answer fail. How it found the code in an answer is not known here: as `extract.py` does.
"""

from collections import OrderedDict
from datetime import timedelta

from sweet_rl.rewards.base import Grade
from sweet_rl.rewards.code import CodeGrader, Reference, result
from sweet_rl.rewards.extract import function_name
from sweet_rl.sandbox.values import as_number, decode, findable, preview, same

FORBIDDEN_WORDS = ("print(", "write", "open(")
LISTS = {"l": list, "t": tuple}


class PaperGrader(CodeGrader):
    """`CodeGrader` with the release's rules. Grades say `failure` "banned word" where one is in the code."""

    scope, rules = "function", "paper"

    def describe(self) -> str:
        return f"{super().describe()}; scored by the release's rules, for comparison only"

    def _grade(self, facts, answer, names, texts, compiled) -> Grade:
        word = next((word for word in FORBIDDEN_WORDS if texts and word in texts[0]), None)
        if word is not None:
            return self._all_failed(names, "banned word", f"{word!r} is in the code")
        return super()._grade(facts, answer, names, texts, compiled)

    def _compare(self, name: str, facts, number: int, outcome: tuple) -> dict:
        if facts.results[number] is None:
            return result(name, "reference failed", facts.ungradable)
        reason, content = outcome
        if reason != "value":
            return result(name, reason, content)
        try:
            passed = equal_as_released(facts.tree(number), decode(content))
            shown = f"expected {preview(facts.tree(number))}, got {preview(decode(content))}"
        except ValueError:
            passed, shown = False, "the process wrote something that is no result"
        return result(name) if passed else result(name, "wrong value", shown)

    def _run_reference(self, reference: str, test_cases: dict[str, str]) -> Reference:
        facts = Reference(function_name(reference, test_cases), "")
        if not test_cases:
            facts.ungradable = "the task has no test cases"
            return facts
        compiled = self._compiler.modules([[reference]])[0]
        calls = self._compiler.calls(list(test_cases.values()), whole=True)
        facts.calls, facts.results = calls.code, [None] * len(test_cases)
        if not (compiled.failure or calls.failure):
            outcomes = self._run("reference", 0, facts, compiled, reference, len(test_cases))
            facts.results = [content if reason == "value" else None for reason, content in outcomes]
        facts.trees = [None if text is None else decode(text) for text in facts.results]
        return facts


def equal_as_released(expected, got) -> bool:
    """Whether two trees stand for values that `==` alone calls equal and that are not None."""
    try:
        return expected is not None and bool(_value(expected) == _value(got))
    except (TypeError, ValueError, LookupError, ArithmeticError, RecursionError):
        return False


def _value(tree):
    """The Python value of a tree of plain data. Raises ValueError for what has no `==` of its own."""
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
    if tag in ("d", "od"):
        pairs = zip(findable(_value(key) for key, _ in items), (_value(value) for _, value in items), strict=True)
        return OrderedDict(pairs) if tag == "od" else dict(pairs)
    if tag == "td":
        return timedelta(microseconds=items[0])
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
