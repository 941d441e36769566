"""The release's rules: what its grader scored 0 scores 0 here too, and nothing of it escapes the sandbox."""

import pytest

from sweet_rl.dialogues.backend.released_rules import PaperGrader
from sweet_rl.sandbox.values import decode, same
from tests.support.grading import colbench, colbench_tasks, grade

ADD = "def f(x):\n    return x + 1\n"
CALLS = {"test1": "f(1)", "test2": "f(-4)"}


@pytest.fixture(scope="module")
def grader():
    with PaperGrader(timeout=0.5, workers=1) as grader:
        yield grader


SCORES = {
    "plain": (ADD, 1.0, None),
    "one of two": ("def f(x):\n    return 2 * x", 0.5, "wrong value"),
    "import inside": ("def f(x):\n    import math\n    return math.floor(x) + 1", 1.0, None),
    "import at the top": ("import math\ndef f(x):\n    return math.floor(x) + 1", 0.0, "exception"),
    "helper": ("def g(x):\n    return 1\ndef f(x):\n    return x + g(x)", 0.0, "exception"),
    "recursion": ("def f(x):\n    return x + 1 if x < 5 else f(x - 1)\n", 1.0, None),
    "real recursion": ("def f(x, n=1):\n    return x if n == 0 else f(x + 1, n - 1)", 0.0, "exception"),
    "a print": ("def f(x):\n    print(x)\n    return x + 1", 0.0, "banned word"),
    "the word write": ("def f(x):\n    written = x + 1\n    return written", 1.0, None),
    "the word write, really": ("def f(x):\n    write = x + 1\n    return write", 0.0, "banned word"),
    "opened( is no open(": ("def f(x):\n    opened = lambda y: y + 1\n    return opened (x)", 1.0, None),
    "exit": ("import sys\ndef f(x):\n    raise SystemExit(0)", 0.0, "exception"),
    "a liar": ("def f(x):\n    class A:\n        def __eq__(self, o): return True\n    return A()", 0.0, None),
}


@pytest.mark.parametrize("name", SCORES)
def test_scores_are_those_of_the_release(grader, name):
    answer, reward, failure = SCORES[name]
    if name == "the word write":
        assert "write" not in answer.replace("written", "")
    graded = grade(grader, ADD, answer, CALLS)
    assert graded.reward == reward, graded
    assert failure is None or graded.failure == failure


def test_none_never_passes_and_a_failing_reference_counts_as_zero(grader):
    nothing = "def f(x):\n    return None"
    assert grade(grader, nothing, nothing, CALLS).reward == 0.0
    imports = "import math\ndef f(x):\n    return math.floor(x)"
    graded = grade(grader, imports, "def f(x):\n    return x", CALLS)
    assert graded.reward == 0.0 and graded.failure == "reference failed" and graded.ungradable is None


TRUTHS = {
    "f(1) == 2": ("return 2", "return 3"), "f(1) == 3": ("return None", "return 3"),
    "f(1) == 2.0": ("return 2", "pass"),
    "f(1) == [3]": ("return 'x' * 100_000", "return [3]"), "f(1) == None": ("return [1]", "pass"),
}  # fmt: skip


@pytest.mark.parametrize("test", TRUTHS)
def test_of_a_comparison_with_a_literal_the_truth_counts(grader, test):
    """The reference returns 2. Nothing is compared with that, so a value of any length may pass."""
    right, wrong = (f"def f(x):\n    {body}" for body in TRUTHS[test])
    assert grade(grader, ADD, right, {"t": test}).reward == 1.0
    graded = grade(grader, ADD, wrong, {"t": test})
    assert graded.reward == 0.0 and graded.failure == "wrong value"


def test_equality_is_to_the_last_digit():
    assert same(decode(b"0.5"), decode(b"0.5"), exact=True) and same(1, 1.0, exact=True)
    assert not same(0.30000000000000004, 0.3, exact=True)
    assert not same(decode(b"NaN"), decode(b"NaN"), exact=True)
    assert not same(decode(b'["nd",["t",1],["l",1]]'), decode(b'["nd",["t",1],["l",1]]'), exact=True)
    assert same(decode(b'["d","a",["S",1,2]]'), decode(b'["d","a",["S",2,1]]'), exact=True)


@pytest.mark.skipif(colbench() is None, reason="ColBench is not here: set SWEET_RL_COLBENCH to its folder")
def test_the_references_score_nearly_all_as_in_the_release(grader):
    rewards = [
        graded.reward for graded in grader.grade_many((task, task.ground_truth) for task in colbench_tasks()[::3])
    ]
    assert 0.97 < sum(reward == 1.0 for reward in rewards) / len(rewards) < 1.0001
