"""What a test does with the values of an answer: one value that cannot be made fails its own test only."""

import pytest

from sweet_rl.domains.backend.hidden_tests import CodeGrader
from sweet_rl.domains.backend.released_rules import PaperGrader
from tests.support.grading import grade

REFERENCE = "def f(n):\n    return list(range(n))\n"
CALLS = {f"t{n}": f"len(f({n})) == {n} and {n} in [*f({n}), {n}]" for n in range(1, 6)}
BAD = {
    "an object": "class A: pass\n    a = A(); a.x = 1\n    return a",
    "a function": "return f",
    "an array": "return numpy.zeros(3)",
    "a deep list": "v = []\n    for _ in range(77): v = [v]\n    return v",
    "a deep dict": "v = {}\n    for _ in range(38): v = {1: [v]}\n    return v",
    "an endless list": "v = []\n    v.append(v)\n    return v",
}


@pytest.fixture(scope="module", params=[CodeGrader, PaperGrader])
def grader(request):
    with request.param(workers=1) as made:
        yield made


@pytest.mark.parametrize("name", BAD)
def test_the_other_tests_of_an_answer_are_judged(grader, name):
    answer = f"def f(n):\n    if n != 3: return list(range(n))\n    import numpy\n    {BAD[name]}\n"
    graded = grade(grader, REFERENCE, answer, CALLS)
    assert [test["name"] for test in graded.evidence["tests"] if not test["passed"]] == ["t3"]


def test_a_rest_without_end_ends_no_other_test(grader):
    graded = grade(grader, REFERENCE, "def f(n): return range(10**12) if n == 3 else range(n)", CALLS | {
        "t3": "sum(1 for _ in f(3)) == 3"
    })  # fmt: skip
    assert [(test["name"], test["reason"]) for test in graded.evidence["tests"] if not test["passed"]] == [
        ("t3", "timeout")
    ]
