"""What a hidden test is, and what becomes of a task with a test that is none."""

import pytest

from sweet_rl.dialogues.backend.calls import prelude, read_tests
from sweet_rl.dialogues.backend.environment import check_tasks
from sweet_rl.dialogues.backend.hidden_tests import CodeGrader
from sweet_rl.runs.records import Task
from tests.support.grading import grade

REFERENCE = """
import math
from datetime import date
LIMIT = 3
CASES = [[1, 'a'], [2, 'b']]
def f(x, key=None): return x
if LIMIT:
    def g(x):
        inner = x
        return inner
encode = lambda x: x
class A:
    def __init__(self, x): self.x = x
"""
TESTS = {
    "f(1)": ("f", [], None), " f(x=[1, 'a'])\n": ("f", [], None), "g(*[1], **{})": ("g", [], None),
    "A(1)": ("A", [], None), "encode('a')": ("encode", [], None), "f(LIMIT)": ("f", ["LIMIT"], None),
    "f([LIMIT, *CASES], key={1: LIMIT})": ("f", ["CASES", "LIMIT"], None),
    "f(date(2020, 1, 2))": ("f", ["date"], None), "f(f(1))": ("f", ["f"], None), "f(A(1))": ("f", ["A"], None),
    "f(lambda g, x: [g(n) for n in x])": ("f", [], None), "f(sorted({1}) + [math.pi])": ("f", ["math", "sorted"], None),
    "f(1) == 2": ("f", [], b"2"), "-2.5 == f(1)": ("f", [], b"-2.5"),
    "f(1) == {'a': (1,)}": ("f", [], b'["d",["a",["t",1]]]'),
    "set() == f(LIMIT)": ("f", ["LIMIT"], b'["S"]'),
}  # fmt: skip


@pytest.mark.parametrize("test", TESTS)
def test_a_call_and_a_call_that_is_compared_with_a_literal_are_hidden_tests(test):
    found = read_tests({"t": test}, REFERENCE)["t"]
    assert (found.function, sorted(found.names), found.literal) == TESTS[test]


NEITHER, NO_PYTHON, RUNS = "neither the call of a name", "no Python", "would run code of the answer"
NO_TESTS = {
    **dict.fromkeys(["f", "1", "f(1) + 1", "f(1)[0]", "A(1).x", "f(1)(2)", "f(1) != 2", "f(1) == 2 == 2", "not f(1)",
                     "f(1) == LIMIT", "f(1) == f(2)", "f(1) == date(2020, 1, 2)", "f(1) is None", "1 == 1",
                     "[f(x) for x in (1, 2)]", "(lambda: f(1))()", "(v := f(1))", "f(1) == [*(1, 2)]"], NEITHER),
    **dict.fromkeys(["f(1", "x = f(1)", "", "f(yield)", "-" * 10**5 + "f(1)", "f(" * 300 + ")" * 300], ""),
    **dict.fromkeys(["abs(f(1))", "nothing_like_it(1)", "math(1)", "inner(1)", "eval('f(1)') == 1", "date(2020, 1, 2)"],
                    "which the reference does not define"),
    **dict.fromkeys(["f(g(1))", "g(f(1))", "f(g)", "f(encode('a')) == 'a'", "f(x=[encode(1)])", "f(eval('g(1)'))",
                     "f(lambda x: g(x))", "f([g(n) for n in (1, 2)])"], RUNS),
    **dict.fromkeys(["f(CASES[0][0])", "f(list(CASES)[0])", "f(LIMIT + 1)", "f([n for n, _ in CASES])"], "would see"),
}  # fmt: skip


@pytest.mark.parametrize("test", NO_TESTS)
def test_nothing_else_is_a_hidden_test(test):
    with pytest.raises(ValueError, match="^t is no hidden test: .*" + NO_TESTS[test]):
        read_tests({"good": "f(1)", "t": test}, REFERENCE)


def test_a_reference_that_is_no_python_is_left_to_fail():
    assert read_tests({"t": "anything(g(1))"}, "def f(:")["t"].function == "anything"
    with CodeGrader(workers=1) as grader:
        graded = grade(grader, "def f(:", "def f(): pass", {"t": "f()"})
    assert graded.ungradable.startswith("the reference fails t: syntax error")


def test_a_file_says_which_of_its_tasks_cannot_be_graded(caplog):
    tasks = [Task(f"Task {n}.", REFERENCE, {"a": "f(1)", "b": test}, id=f"t{n}")
             for n, test in enumerate(["f(2)", "f(2) + 1", "f(2) == 2", *["f(g(1))"] * 30])]  # fmt: skip
    check_tasks([*tasks, *tasks], "tasks.jsonl")
    (message,) = caplog.messages
    first, *lines = message.split("\n")
    assert first.startswith("tasks.jsonl: 31 of 33 tasks cannot be graded") and "`f(1) == 3`" in first
    assert lines[0].startswith("  task t1: b is no hidden test: it is neither") and lines[1].startswith(
        "  task t3: b is"
    )
    assert len(lines) == 21 and lines[-1] == "  and 11 more"
    caplog.clear()
    check_tasks([tasks[0], tasks[2]], "tasks.jsonl")
    assert caplog.messages == []


TWO = """def slow(n):
    return n if n < 2 else slow(n - 1) + slow(n - 2)
def f(n):
    a, b = 0, 1
    for _ in range(n): a, b = b, a + b
    return a
def close(a, b): return abs(a - b) < 1e-6
"""
HELPED = ["f(10) == slow(10)", "close(f(10), 55)", "close(f(10), slow(10)) == True", "abs(f(10) - 55) < 1e-6"]


@pytest.mark.parametrize("test", HELPED)
def test_no_helper_of_an_answer_judges_it(test):
    """Neither does it pass by its own helpers, nor does an honest one fail that has none."""
    lying = "def slow(n): return 0\ndef f(n): return 0\ndef close(a, b): return True"
    with CodeGrader(workers=1) as grader:
        assert [grade(grader, TWO, answer, {"t": test}).reward for answer in (TWO, lying, lying[22:])] == [None] * 3


def test_a_name_of_the_reference_does_not_take_the_place_of_the_answer_s_function_or_of_a_module():
    reference = "from math import sqrt, floor\ndecimal = collections = [9]\ndef sqrt(x): return x * 2\n"
    answer = "import collections, decimal\ndef sqrt(x): return int(decimal.Decimal(2) * x) + len(collections.Counter())"
    tests = {"a": "sqrt(floor(4.5))", "b": "sqrt(sqrt(8))", "c": "sqrt(9)"}
    with CodeGrader(workers=1) as grader:
        assert grade(grader, reference, answer, tests).reward == 1.0
        assert grade(grader, reference, "from math import sqrt", tests).reward == 0.0


def test_constants_and_imports_of_the_reference_may_be_arguments():
    answer = "import datetime, math as LIMIT\ndef f(x, key=None): return x\ndef g(x): return x"
    tests = {"a": "f([LIMIT, *CASES])", "b": "g(date(2020, 1, 2))", "c": "f(math.floor(1.5)) == 1"}
    with CodeGrader(workers=1) as grader:
        graded = grade(grader, REFERENCE, answer, tests)
    assert graded.reward == 1.0, graded


def test_a_prelude_has_only_what_is_named():
    reference = (
        "import math; import os.path\nfrom a import (\n    b,  # (one)\n    c as d,\n)\n\ndef f(x):\n    return x"
    )
    assert prelude(reference, {"os", "f"}) == "import os.path"
    assert prelude(reference, {"d"}) == "from a import (\n    b,  # (one)\n    c as d,\n)"
    assert prelude(reference, {"c", "f"}) == prelude(reference, set()) == prelude("import math\n(", {"math"}) == ""
    assert prelude("from a import *\nA = 1; B = 2", {"A"}) == "from a import *\nA = (1)"


@pytest.mark.parametrize(
    "text",
    [
        "A = 3  # the user's limit", "A = (1, 2)", "A = 'a\\n'", "A = 0x1F", "A = 1_000", "A = 1e3", "A = B = 3",
        "A: int = 3", "A = {\n    'x': [1],  # one\n}", "A = (\n    'x'\n    'y'\n)", 'A = """two\nlines"""',
        "A = set()", "A = 'é中'; B = 2", "A = 1\r\nA = 2\r\n",
    ],
)  # fmt: skip
def test_a_literal_constant_is_the_same_argument_for_every_answer(text):
    of_reference, of_answer = {}, {}
    exec(text, of_reference)
    read_tests({"t": "f(A)"}, f"{text}\ndef f(x): return x\n")
    exec(prelude(f"{text}\ndef f(x): return x\n", {"A"}), of_answer)
    assert of_answer["A"] == of_reference["A"] and "B" not in of_answer


@pytest.mark.parametrize("text", ["A, B = 1, 2", "if True:\n    A = 1", "A = [1]\nA += [2]"])
def test_a_name_whose_value_no_answer_would_have_is_refused(text):
    with pytest.raises(ValueError, match="^t is no hidden test: an argument names A"):
        read_tests({"t": "f(A)"}, f"{text}\ndef f(x): return x\n")
