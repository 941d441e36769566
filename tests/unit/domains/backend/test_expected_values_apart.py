"""No constant of the reference that a test compares with is anywhere in the memory of the answer's process."""

import pytest

from sweet_rl.domains.backend.hidden_tests import CodeGrader
from sweet_rl.domains.backend.released_rules import PaperGrader
from sweet_rl.domains.backend.take_apart import take_apart
from tests.support.grading import grade

REFERENCE = """import math; ALSO = "zq77also"
TABLE = {"a": "zq77"}
CASES = [[1, "zq77"], [2, ["zq77b", 4]]]
ITEMS = ["b", "a"]
def f(x):
    return {1: "zq77", 2: ["zq77b", 4], "a": "zq77"}.get(x, x)
def g(items):
    return sorted(items)
"""
# Walks every object that it can reach from its frames, its modules and the garbage collector.
SPY = """import math
def f(x):
    import gc, sys
    needle, frame, seen = "zq" + str(70 + 7), sys._getframe(), set()
    objects, found = [sys.modules, *gc.get_objects()], False
    while frame:
        objects += [frame.f_code, *frame.f_locals.values()]
        frame = frame.f_back
    while objects and not found:
        one = objects.pop()
        if id(one) not in seen and one is not needle:
            seen.add(id(one))
            found = type(one) is str and one.startswith(needle) or type(one) is bytes and needle.encode() in one
            objects += gc.get_referents(one)
            objects += one.co_consts if type(one).__name__ == "code" else ()
    raise ValueError("held" if found else "nothing")
"""
FORMS = {
    "equal to an item": 'f("a") == TABLE["a"]',
    "the other way round": 'TABLE["a"] == f("a")',
    "in values": 'f("a") in TABLE.values()',
    "in a list": "f(1) in [case[1] for case in CASES]",
    "named in a text, too": """f("a\\n TABLE['a']") or f("a") == TABLE["a"]""",
    "argument and value in one constant": "f(CASES[0][0]) == CASES[0][1]",
    "item of an item": "f(CASES[-1][0])[0] == CASES[1][1][:1][0]",
    "slice": "f(CASES[0][:1][0]) in CASES[0][1:]",
    "import and constant in one line": "f(math.floor(1.5)) == CASES[0][1]",
}


@pytest.fixture(scope="module", params=[CodeGrader, PaperGrader])
def grader(request):
    with request.param(timeout=3, workers=1) as made:
        yield made


def test_a_spy_finds_no_constant_that_a_test_compares_with(grader):
    # one form per task, because a spy leaves what it looked for to the next test
    graded = {name: grade(grader, REFERENCE, SPY, {name: form}) for name, form in FORMS.items()}
    found = {name: one.evidence["tests"][0]["message"] for name, one in graded.items()}
    assert found == dict.fromkeys(FORMS, "ValueError: nothing")


def test_the_spy_finds_an_argument():
    with CodeGrader(timeout=3, workers=1) as grader:
        graded = grade(grader, REFERENCE, SPY.replace("def f", "def g"), {"t": "g(TABLE)"})
    assert graded.evidence["tests"][0]["message"] == "ValueError: held"


def test_an_honest_answer_passes_with_constants_of_its_own():
    answer = REFERENCE.replace("TABLE", "T").replace("CASES", "C").replace("ITEMS", "I").replace("ALSO", "A")
    calls = {**FORMS, "argument": "g(ITEMS) == sorted(ITEMS)", "several": "g([*ITEMS])[0] == ITEMS[1]"}
    with CodeGrader(workers=1) as grader:
        assert grade(grader, REFERENCE, answer, calls).reward == 1.0


def test_a_test_whose_call_needs_a_constant_with_the_expected_values_is_ungradable():
    calls = {"a": "f(list(TABLE)[0]) in TABLE.values()"}, {"a": "f(TABLE)", "b": 'f("a") == TABLE["a"]'}
    with CodeGrader(workers=1) as grader:
        for tests in calls:
            assert "names TABLE, with which a test compares" in grade(grader, REFERENCE, REFERENCE, tests).ungradable


def test_only_items_that_are_written_out_are_replaced():
    prelude = "A = [[1, 2], {'k': 'v'}]\nB = [2 * 3]"
    for call, asked in {
        "f(A[0][1])": "f(2)", "f(A[1]['k'])": "f('v')", "f(A[-2][1:])": "f([2])", "f(A[9])": "f(A[9])",
        "f(A[i])": "f(A[i])", "f(B[0])": "f(B[0])", "f([A[0] for A in A])": "f([A[0] for A in A])",
    }.items():  # fmt: skip
        assert take_apart(call, prelude + "\ndef f(x): return x", prelude, 0).asked == [asked]
