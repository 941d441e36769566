"""What of a test runs with the answer, and which tests do not come apart."""

import pytest

from sweet_rl.domains.backend.take_apart import Parts, take_apart

REFERENCE = """
import math
import subprocess as sp
from datetime import date
LIMIT = 3
def f(x): return x
if LIMIT:
    def g(x):
        len = other = x
        return len
round = lambda x: x
class A:
    kind: str = "a"
    def __init__(self, x): self.x = x
    def add(self, n):
        count = n
        return A(self.x + count)
"""
PRELUDE = "import math\nimport subprocess as sp\nfrom datetime import date\nLIMIT = 3"

COMES_APART = {
    "f(1)": (["f(1)"], None),
    " f(LIMIT)\n": (["f(LIMIT)"], None),
    "f(g(1))(2)": (["f(g(1))(2)"], None),
    "A(1).add(2).x": (["A(1).add(2).x"], None),
    "f(1) == open('x')": (["f(1)"], None),
    "[1] * 2 == f(1)": (["f(1)"], None),
    "f(1) == f(2)": (["f(1)", "f(2)"], "_0 == _1"),
    "f(1)[0] == 2": (["f(1)"], "_0[0] == 2"),
    "f(1) != 2": (["f(1)"], "_0 != 2"),
    "1 < f(1) < 3": (["f(1)"], "1 < _0 < 3"),
    "abs(f(1) - LIMIT) < 1e-06": (["f(1)"], "abs(_0 - LIMIT) < 1e-06"),
    "math.isclose(f(1), 2)": (["f(1)"], "math.isclose(_0, 2)"),
    "f(1).count(2)": (["f(1)"], "_0.count(2)"),
    "A(1).add(2).kind.upper()": (["A(1).add(2).kind"], "_0.upper()"),
    "str(f(1)) + f'{g(2)}'": (["f(1)", "g(2)"], "str(_0) + f'{_1}'"),
    "round(1) + 1": (["round(1)"], "_0 + 1"),
    "[x for x in f(lambda x: x)]": (["f(lambda x: x)"], "[x for x in _0]"),
    "f(1) == date(2020, 1, 2)": (["f(1)"], None),
}


@pytest.mark.parametrize("test", COMES_APART)
def test_only_calls_of_the_reference_s_names_run_with_the_answer(test):
    asked, rest = COMES_APART[test]
    parts = take_apart(test, REFERENCE, PRELUDE, 7)
    assert parts.asked == asked
    assert parts.rest == (None if rest is None else rest.replace("_", "_value7_"))


def test_the_rules_of_the_release_compare_the_truth_of_an_equality():
    assert take_apart("f(1) == 2", REFERENCE, "", 0, whole=True).rest == "_value0_0 == 2"
    assert take_apart("f(1)", REFERENCE, "", 0, whole=True) == Parts(["f(1)"])


DOES_NOT = {
    "f": "does not call it",
    "sorted([1], key=f)": "does not call it",
    "LIMIT == 3": "does not call it",
    "f(1) + f": "names f",
    "eval(f(1)) + 0": "names eval",
    "getattr(f(1), 'x')": "names getattr",
    "sp.run(f(1))": "names sp",
    "round(1)[round]": "names round",
    "unknown(f(1))": "names unknown",
    "[f(x) for x in (1, 2)]": "depends on x",
    "(lambda x: f(x))(1)": "depends on x",
    "f(1": "no Python",
    "x = f(1)": "no Python",
    "-" * 10**5 + "f(1)": "no Python",
}


@pytest.mark.parametrize("test", DOES_NOT)
def test_what_does_not_come_apart_is_refused(test):
    with pytest.raises(ValueError, match=DOES_NOT[test]):
        take_apart(test, REFERENCE, PRELUDE, 0)


@pytest.mark.parametrize("test", ["1 + 1", "nothing_like_it(1)", "eval('f(1)') == 1", "abs(-1) == 1"])
def test_a_test_that_calls_nothing_of_the_reference_is_its_failure(test):
    with pytest.raises(LookupError, match="nothing that the test calls"):
        take_apart(test, REFERENCE, PRELUDE, 0)


def test_a_reference_that_is_no_python_is_left_to_fail():
    assert take_apart("f(1) + 1", "def f(:", "", 0) == Parts(["f(1) + 1"])


def test_a_prelude_that_is_no_python_gives_no_names():
    with pytest.raises(ValueError, match="names math"):
        take_apart("math.sqrt(f(1))", REFERENCE, "from the list of\nimport math", 0)
