"""What a hidden test is, and what becomes of a task with a test that is none."""

import pytest

from sweet_rl.dialogues.backend.calls import read_tests
from sweet_rl.dialogues.backend.environment import check_tasks
from sweet_rl.dialogues.backend.hidden_tests import CodeGrader
from sweet_rl.runs.records import Task
from tests.support.grading import grade

REFERENCE = """
import math
from datetime import date
LIMIT = 3
CASES = [[1, 'a'], [2, 'b']]
A, B = 1, 2
CHANGED = [1]
CHANGED += [2]
def f(x, key=None): return x
if LIMIT:
    def g(x):
        inner = x
        return inner
encode = lambda x: x
class P:
    def __init__(self, x): self.x = x
"""
LIMIT, MATH, DATE = "LIMIT = 3", "import math", "from datetime import date"
TESTS = {
    "f(1)": ("f", "", None), " f(x=[1, 'a'])\n": ("f", "", None), "g(*[1], **{})": ("g", "", None),
    "P(1)": ("P", "", None), "encode('a')": ("encode", "", None), "f(LIMIT, key=LIMIT)": ("f", LIMIT, None),
    "f(date(2020, 1, 2))": ("f", DATE, None), "f(lambda g, x: [g(n) for n in x])": ("f", "", None),
    "f(sorted({1}) + [math.pi])": ("f", MATH, None), "f(1) == 2": ("f", "", b"2"),
    "f(f(1))": ("f", "", None), "f(LIMIT) == {'a': (1,)}": ("f", LIMIT, b'["d","a",["t",1]]'),
}  # fmt: skip


@pytest.mark.parametrize("test", TESTS)
def test_a_call_and_a_call_that_is_compared_with_a_literal_are_hidden_tests(test):
    found = read_tests({"t": test}, REFERENCE)
    assert (found.function, found.prelude, found.tests["t"].literal) == TESTS[test]


NEITHER, USES = "neither the call of a name", "an argument names"
NO_TESTS = {
    **dict.fromkeys(["f", "1", "f(1) + 1", "f(1)[0]", "P(1).x", "f(1)(2)", "f(1) != 2", "f(1) == 2 == 2", "not f(1)",
                     "f(1) == LIMIT", "f(1) == f(2)", "2 == f(1)", "f(1) is None", "[f(x) for x in (1, 2)]",
                     "(lambda: f(1))()", "(v := f(1))", "f(1) == [*(1, 2)]"], NEITHER),
    **dict.fromkeys(["f(1", "x = f(1)", "", "f(yield)", "-" * 10**5 + "f(1)", "f(" * 300 + ")" * 300], ""),
    **dict.fromkeys(["abs(f(1))", "nothing_like_it(1)", "math(1)", "inner(1)", "eval('f(1)') == 1", "date(2020, 1, 2)"],
                    "which the reference does not define"),
    **dict.fromkeys(["f(g(1))", "g(f(1))", "f(P(1))", "f(encode('a')) == 'a'", "f(eval('g(1)'))",
                     "f(lambda x: g(x))", "f(CASES[0][0])", "f(list(CASES)[0])", "f([LIMIT])", "f(A)", "f(CHANGED)"],
                    USES),
}  # fmt: skip


@pytest.mark.parametrize("test", NO_TESTS)
def test_nothing_else_is_a_hidden_test(test):
    with pytest.raises(ValueError, match="^t is no hidden test: .*" + NO_TESTS[test]):
        read_tests({"good": "f(1)", "t": test}, REFERENCE)


def test_the_function_of_an_answer_is_the_last_one_that_the_reference_defines_and_a_test_calls():
    reference = "def helper(x):\n    return x\n\ndef f(x):\n    return helper(x)\n\ndef other(): pass\n"
    assert read_tests({"a": "f(1)", "b": "helper(1)"}, reference).function == "f"
    assert read_tests({"a": "helper('f(1)')"}, reference).function == "helper"


def test_a_reference_that_is_no_python_cannot_be_graded_against():
    with CodeGrader(workers=1) as grader:
        assert grade(grader, "def f(:", "def f(): pass", {"t": "f()"}).ungradable.startswith("the reference is no Pyth")


def test_a_file_says_which_of_its_tasks_cannot_be_graded(caplog):
    tasks = [Task(f"Task {n}.", REFERENCE, {"a": "f(1)", "b": test}, id=f"t{n}")
             for n, test in enumerate(["f(2)", "f(2) + 1", "f(2) == 2"])]  # fmt: skip
    check_tasks([*tasks, *tasks], "tasks.jsonl")
    (message,) = caplog.messages
    assert message.startswith("tasks.jsonl: 1 of 3 tasks cannot be graded") and "task t1: b is no hidden" in message
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


@pytest.mark.parametrize(
    "test", ["f(10) == slow(10)", "close(f(10), 55)", "close(f(10), slow(10)) == True", "abs(f(10) - 55) < 1e-6"]
)
def test_no_helper_of_an_answer_judges_it(test):
    """Neither does it pass by its own helpers, nor does an honest one fail that has none."""
    lying = "def slow(n): return 0\ndef f(n): return 0\ndef close(a, b): return True"
    with CodeGrader(workers=1) as grader:
        assert [grade(grader, TWO, answer, {"t": test}).reward for answer in (TWO, lying, lying[22:])] == [None] * 3


def test_the_reference_s_names_reach_arguments_and_nothing_of_the_answer():
    reference = "from math import sqrt, floor\ndecimal = collections = [9]\ndef sqrt(x): return x * 2\n"
    answer = "import collections, decimal\ndef sqrt(x): return int(decimal.Decimal(2) * x) + len(collections.Counter())"
    own = "import datetime, math as LIMIT\ndef f(x, key=None): return x\ndef g(x): return x"
    tests = {"a": "f(LIMIT, key=CASES)", "b": "g(date(2020, 1, 2))", "c": "f(math.floor(1.5)) == 1"}
    with CodeGrader(workers=1) as grader:
        assert grade(grader, reference, answer, {"a": "sqrt(floor(4.5))", "c": "sqrt(9)"}).reward == 1.0
        assert grade(grader, reference, "from math import sqrt", {"c": "sqrt(9)"}).reward == 0.0
        assert grade(grader, REFERENCE, own, tests).reward == 1.0


def test_an_argument_gets_what_the_reference_imports_in_many_lines_or_whole():
    for statement in ("from datetime import (\n    date,\n    datetime,\n)", "from datetime import *"):
        reference = f"{statement}\ndef f(day):\n    return day.year"
        with CodeGrader(workers=1) as grader:
            answer = "def f(day):\n    return int(day.strftime('%Y'))"
            assert grade(grader, reference, answer, {"t": "f(datetime(2020, 1, 2))"}).reward == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "A = (1, 2)", "A = B = 3", "A: int = 3", "A = {\n    'x': [1],  # one\n}", 'A = """two\nlines"""', "A = set()",
        "A = 'é中'; B = 2", "A = 1\r\nA = 2\r\n",
    ],
)  # fmt: skip
def test_a_literal_constant_is_the_same_argument_for_every_answer(text):
    of_reference, of_answer = {}, {}
    exec(text, of_reference)
    exec(read_tests({"t": "f(A)"}, f"{text}\ndef f(x): return x\n").prelude, of_answer)
    assert of_answer["A"] == of_reference["A"] and "B" not in of_answer
