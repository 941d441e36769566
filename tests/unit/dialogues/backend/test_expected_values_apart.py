"""No constant of the reference is anywhere in the memory of the answer's process, except arguments of the calls."""

import pytest

from sweet_rl.dialogues.backend.hidden_tests import CodeGrader
from sweet_rl.dialogues.backend.released_rules import PaperGrader
from tests.support.grading import grade

REFERENCE = """import math; ALSO = "zq77also"
TABLE = {"a": "zq77"}
CASES = [[1, "zq77"], [2, ["zq77b", 4]]]
LIMIT = 2
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
    "a call": 'f("a")',
    "equal to a literal": 'f("a") == "zq77"',
    "named in a text, too": """f("a\\n TABLE['a']")""",
    "another constant": "f(LIMIT)",
    "import and constant in one line": "f(math.floor(1.5))",
}


@pytest.fixture(scope="module", params=[CodeGrader, PaperGrader])
def grader(request):
    with request.param(timeout=3, workers=1) as made:
        yield made


def test_a_spy_finds_no_constant_that_is_no_argument(grader):
    # one form per task, because a spy leaves what it looked for to the next test
    graded = {name: grade(grader, REFERENCE, SPY, {name: form}) for name, form in FORMS.items()}
    found = {name: one.evidence["tests"][0].get("message") for name, one in graded.items()}
    nothing = dict.fromkeys(FORMS, "ValueError: nothing")
    if grader.rules == "paper":  # the release gives the calls nothing of the reference
        nothing["another constant"] = "NameError: name 'LIMIT' is not defined"
    assert found == nothing


def test_the_spy_finds_an_argument():
    with CodeGrader(timeout=3, workers=1) as grader:
        graded = grade(grader, REFERENCE, SPY.replace("def f", "def g"), {"t": "g(TABLE)"})
    assert graded.evidence["tests"][0]["message"] == "ValueError: held"


def test_a_test_that_would_show_more_of_a_constant_than_it_passes_is_ungradable():
    with CodeGrader(workers=1) as grader:
        for test in ("f(CASES[0][0])", "f(list(TABLE)[0])", 'f("a") == TABLE["a"]'):
            assert grade(grader, REFERENCE, REFERENCE, {"t": test}).ungradable.startswith("t is no hidden test"), test
