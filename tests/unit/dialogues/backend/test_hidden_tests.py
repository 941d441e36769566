"""The grader: honest answers as a person would grade them, references that cannot be graded against, failure kinds."""

import pytest

from sweet_rl.dialogues.backend.hidden_tests import CodeGrader
from sweet_rl.dialogues.backend.released_rules import PaperGrader
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task
from tests.support.grading import colbench, colbench_tasks, grade, messages, reasons

ADD = "def f(x):\n    return x + 1\n"
CALLS = {"test1": "f(1)", "test2": "f(-4)"}


@pytest.fixture(scope="module")
def grader():
    with CodeGrader(timeout=0.25, workers=2) as grader:
        yield grader


def test_a_right_answer_has_reward_one(grader):
    graded = grade(grader, ADD, f"Here:\n```python\n{ADD}```", CALLS)
    assert graded.reward == 1.0 and graded.failure is None
    assert graded.evidence == {
        "level": grader.level,
        "tests": [{"name": "test1", "passed": True}, {"name": "test2", "passed": True}],
    }


def test_the_reward_is_the_share_of_tests_passed(grader):
    graded = grade(grader, ADD, "def f(x):\n    return 2 * x", CALLS)
    assert graded.reward == 0.5 and graded.failure == "wrong value"
    assert messages(graded)[1] == "expected -3, got -8"


HONEST = {
    "top-level import": ("import math\ndef f(x):\n    return math.floor(x) + 1",),
    "helper and recursion": ("def g(n):\n    return 0 if n == 0 else 1 + g(n - 1)\ndef f(x):\n    return x + g(1)",),
    "class": ("class A:\n    def __init__(self, x): self.x = x\ndef f(x):\n    return A(x).x + 1",),
    "dataclass": ("from dataclasses import *\n@dataclass\nclass A:\n    x: int\ndef f(x):\n    return A(x).x + 1",),
    "decorator": ("import functools\n@functools.lru_cache\ndef f(x):\n    return x + 1",),
    "prints": ("def f(x):\n    print('hello')\n    return x + 1\nprint(f(1))",),
    "main guard": (ADD + "\nif __name__ == '__main__':\n    import sys\n    sys.exit(f(int(input())))",),
    "banned words": ("def f(x):\n    write = open_ = 'print( open( write'\n    return x + 1",),
    "future annotations": ("from __future__ import annotations\ndef f(x: Unknown):\n    return x + 1",),
    "rare module": ("import colorsys, xml.etree.ElementTree\ndef f(x):\n    return x + 1",),
    "state": ("seen = []\ndef f(x):\n    seen.append(x)\n    return x + len(seen)",),
    "pandas": ("import pandas as pd\ndef f(x): return int(pd.Series([x, 1]).sum())",),
}  # fmt: skip
NEEDED = {"pandas": "pandas"}


@pytest.mark.parametrize("name", HONEST)
def test_honest_code_behaves_as_in_a_fresh_module(grader, name):
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    graded = grade(grader, ADD, HONEST[name][0], CALLS)
    assert graded.reward == 1.0, graded


def test_the_next_text_is_run_if_the_first_lacks_a_name_and_only_then(grader):
    draft, final = "```python\ndef f(x):\n    return x + 1\n```\n", "```python\n{}\ndef f(x):\n    return 7\n```\n"
    rewards = [grade(grader, ADD, draft + final.format(line), CALLS).reward for line in ("lacking", "1 / 0", "pass")]
    assert rewards == [1.0, 0.0, 0.0]


def test_a_call_that_is_compared_with_a_literal_is_compared_here(grader):
    """What a class says of its own equality, or the same truth of another value, passes nothing."""
    calls = {"a": "f(1) == 2", "b": "f(5) == 5"}
    assert grade(grader, ADD, ADD, calls).reward == 1.0
    lying = "class A:\n    def __eq__(self, other): return True\ndef f(x): return A()"
    for wrong in (lying, "def f(x): return None"):
        assert grade(grader, ADD, wrong, calls).reward == 0.0
    with PaperGrader() as released:
        assert grade(released, "def f(x): return x + 1", "def f(x): return 7", {"b": "f(5) == 5"}).reward == 1.0


FAILURES = {
    "no answer": None,
    "no code": "I think it adds one.",
    "another name": "def g(x):\n    return x + 1",
    "syntax error": "def f(x):\n    return x +",
    "exception": "def f(x):\n    raise KeyError(x)",
    "timeout": "def f(x):\n    while True: pass",
    "memory": "def f(x):\n    return len([0] * 10**9)",
    "unserialisable": "def f(x):\n    return lambda: x",
    "forbidden": "import os\ndef f(x):\n    return os.fork()",
    "missing module": "import no_such_module\ndef f(x):\n    return x + 1",
    "exited": "import os\ndef f(x):\n    os._exit(0)",
    "output": "def f(x):\n    return 'x' * 9_000_000",
    "wrong value": "def f(x):\n    return None",
}


@pytest.mark.parametrize("kind", FAILURES)
def test_every_failure_has_its_kind(grader, kind):
    graded = grade(grader, ADD, FAILURES[kind], CALLS)
    assert graded.reward == 0.0 and graded.failure == kind, graded
    assert reasons(graded) == [kind, kind]


def test_tests_after_one_that_hangs_or_dies_still_count(grader):
    hangs = "def f(x):\n    while x == 1: pass\n    return x + 1"
    dies = "import os\ndef f(x):\n    if x == 1: os._exit(1)\n    return x + 1"
    for answer, reason in ((hangs, "timeout"), (dies, "exited")):
        graded = grade(grader, ADD, answer, CALLS)
        assert reasons(graded) == [reason, None] and graded.reward == 0.5


UNGRADABLE = {
    "fails": "def f(x):\n    return x.y",
    "hangs": "def f(x):\n    while True: pass",
    "random": "import random\ndef f(x):\n    return random.random()",
    "clock": "import time\ndef f(x):\n    return time.perf_counter()",
    "set order": "def f(x):\n    return list({'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'})",
    "hash": "def f(x):\n    return hash('text')",
    "untold": "def f(x):\n    return object()",
}


@pytest.mark.parametrize("name", UNGRADABLE)
def test_a_reference_that_cannot_be_trusted_makes_the_task_ungradable(grader, name):
    graded = grade(grader, UNGRADABLE[name], ADD, CALLS)
    assert graded.reward is None and graded.ungradable and "test1" in graded.ungradable


def test_a_task_without_tests_is_ungradable(grader):
    assert grade(grader, ADD, ADD, {}).ungradable == "the task has no test cases"


def test_references_run_apart_from_answers_under_other_hash_seeds():
    runs = []
    with CodeGrader(timeout=0.5, workers=1) as grader:
        run = grader._pool.run
        grader._pool.run = lambda role, seed, job, imports: (
            runs.append((role, seed, tuple(job.texts))) or run(role, seed, job, imports)
        )
        assert grade(grader, ADD, "def f(x): return 1 + x", CALLS).reward == 1.0
        kinds = {kind[:2] for kind, _ in grader._pool._idle}
    assert kinds == {("reference", 0), ("reference", 1), ("answer", 0)}
    assert runs == [
        ("reference", 0, (ADD,)), ("reference", 1, (ADD,)), ("answer", 0, ("def f(x): return 1 + x",)),
    ]  # fmt: skip


def test_no_process_of_an_answer_is_given_an_expected_value():
    """What is sent to an answer's child holds its own text and the calls."""
    with CodeGrader(timeout=0.5, workers=1) as grader:
        jobs = []
        run = grader._pool.run
        grader._pool.run = lambda role, seed, job, imports: jobs.append((role, job)) or run(role, seed, job, imports)
        grade(grader, "def f(x):\n    return 'expect' + 'ed' * x", "def f(x): return 0", {"test1": "f(1)"})
    (job,) = [job for role, job in jobs if role == "answer"]
    assert "expected" not in repr(job) and "expect" not in repr(job)


def test_the_reference_runs_once_for_all_its_answers(grader, monkeypatch):
    runs = []
    run = grader._pool.run
    monkeypatch.setattr(grader._pool, "run", lambda role, *job: runs.append(role) or run(role, *job))
    jobs = [(Task("", ADD + "# once\n", CALLS), ADD)] * 20
    assert all(graded.reward == 1.0 for graded in grader.grade_many(jobs))
    assert runs.count("reference") == 2 and runs.count("answer") == 20


@pytest.mark.parametrize(
    "settings, said",
    [({"timeout": 0}, "timeout"), ({"memory_mb": 0}, "memory_mb"), ({"workers": 0}, "workers"),
     ({"sandbox": "maybe"}, "seccomp, none"), ({"sandbox": "strict"}, "leave the flag out")],
)  # fmt: skip
def test_bad_settings_are_refused(settings, said):
    with pytest.raises(UserError, match=said):
        CodeGrader(**settings)


def test_every_grade_says_whether_there_was_a_sandbox():
    with CodeGrader(workers=1, sandbox="none") as grader:
        assert grade(grader, ADD, ADD, CALLS).evidence["level"] == "none" and "your files" in grader.describe()
    with CodeGrader(workers=1) as grader:
        assert grade(grader, ADD, ADD, CALLS).evidence["level"] == "seccomp" == grader.describe()[-7:]


@pytest.mark.skipif(colbench() is None, reason="ColBench is not here: set SWEET_RL_COLBENCH to its folder")
def test_colbench_references_pass_all_their_tests():
    tasks = colbench_tasks()[::3]
    with CodeGrader() as grader:
        grades = list(grader.grade_many((task, task.ground_truth) for task in tasks))
    assert [graded for graded in grades if graded.reward != 1.0] == [] and len(grades) == 50
