"""The grader: honest answers as a person would grade them, references that cannot be graded against, failure kinds."""

import json
import os
import resource
from pathlib import Path

import pytest

from sweet_rl.errors import UserError
from sweet_rl.rewards.code import CodeGrader
from sweet_rl.rewards.paper import PaperGrader
from sweet_rl.sandbox.sandbox import Sandbox, SandboxUnavailable

ADD = "def f(x):\n    return x + 1\n"
CALLS = {"test1": "f(1)", "test2": "f(-4)"}


@pytest.fixture(scope="module")
def grader():
    with CodeGrader(timeout=0.5, workers=2) as grader:
        yield grader


def test_a_right_answer_has_reward_one(grader):
    grade = grader.grade(ADD, f"Here:\n```python\n{ADD}```", CALLS)
    assert grade.reward == 1.0 and grade.success and grade.failure is None
    assert [(test.name, test.passed) for test in grade.tests] == [("test1", True), ("test2", True)]


def test_the_reward_is_the_share_of_tests_passed(grader):
    grade = grader.grade(ADD, "def f(x):\n    return 2 * x", CALLS)
    assert grade.reward == 0.5 and not grade.success and grade.failure == "wrong value"
    assert grade.tests[1].message == "expected -3, got -8"


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
    "scratch file": (
        "import tempfile\ndef f(x):\n    with tempfile.TemporaryFile() as t:\n        t.write(b'1'); t.seek(0)\n"
        "        return x + int(t.read())",
    ),
    "thread": (
        "from concurrent.futures import ThreadPoolExecutor\ndef f(x):\n    with ThreadPoolExecutor(2) as p:\n"
        "        return p.submit(lambda: x + 1).result()",
    ),
    "event loop": ("import asyncio\nasync def g(x):\n    await asyncio.sleep(0)\n    return x + 1\n"
    "def f(x):\n    return asyncio.run(g(x))",),
    "rare module": ("import colorsys, xml.etree.ElementTree\ndef f(x):\n    return x + 1",),
    "state": ("seen = []\ndef f(x):\n    seen.append(x)\n    return x + len(seen)",),
}  # fmt: skip


@pytest.mark.parametrize("name", HONEST)
def test_honest_code_behaves_as_in_a_fresh_module(grader, name):
    if name == "scratch file" and grader.level != "strict":
        pytest.skip("only the strict level has a scratch folder")
    grade = grader.grade(ADD, HONEST[name][0], CALLS)
    assert grade.success, grade.tests


def test_calls_may_use_what_the_reference_imports(grader):
    reference = "from datetime import datetime\ndef f(day):\n    return day.year"
    calls = {"test1": "f(datetime(2020, 1, 2))"}
    assert grader.grade(reference, "def f(day):\n    return int(day.strftime('%Y'))", calls).success
    assert grader.grade(reference, "import datetime\ndef f(day):\n    return day.year", calls).success


def test_keyword_arguments_mutation_generators_and_none(grader):
    reference = "def f(a, *, b=None):\n    a.append(b)\n    yield from a\n"
    assert grader.grade(reference, "def f(a, *, b=None):\n    return iter(a + [b])", {"test1": "f([1], b=2)"}).success
    assert grader.grade("def f(a):\n    a.sort()", "def f(a):\n    a.reverse()", {"test1": "f([2, 1])"}).success


def test_numpy_is_there_for_code_that_imports_it(grader):
    pytest.importorskip("numpy")
    reference = "import numpy as np\ndef f(x):\n    return np.array(x) * 2.0"
    assert grader.grade(
        reference, "import numpy\ndef f(x):\n    return numpy.multiply(x, 2)", {"t": "f([1, 2])"}
    ).success


def test_pandas_is_there_for_code_that_imports_it(grader):
    """It brings libraries that start threads, and a process with threads cannot shut itself in."""
    pytest.importorskip("pandas")
    reference = "def f(x):\n    return sum(x)"
    answer = "import pandas as pd\ndef f(x): return int(pd.Series(x).sum())"
    assert grader.grade(reference, answer, {"t": "f([1, 2])"}).success


def test_modules_that_keep_a_process_from_shutting_itself_in_are_not_loaded(monkeypatch):
    """No answer ends the run of all: it has to do without."""
    started = Sandbox.__init__

    def refuse(self, *settings, **more):
        if "networkx" in more.get("modules", ()):
            raise SandboxUnavailable("it cannot be had.")
        started(self, *settings, **more)

    monkeypatch.setattr(Sandbox, "__init__", refuse)
    with CodeGrader(workers=1) as grader:
        answer = "try: import networkx\nexcept ImportError: pass\n" + ADD
        assert [grader.grade(ADD, answer, CALLS).success for _ in range(2)] == [True, True]
        assert grader.grade(ADD, "import networkx\n" + ADD, CALLS).failure == "exception"


def test_a_call_that_compares_its_value_is_compared_here(grader):
    """What a class says of its own equality, or the same truth of another value, passes nothing."""
    calls = {"a": "f(1) == 2", "b": "5 == f(5)"}
    assert grader.grade(ADD, ADD, calls).success
    lying = "class A:\n    def __eq__(self, other): return True\ndef f(x): return A()"
    for wrong in (lying, "def f(x): return None"):
        assert grader.grade(ADD, wrong, calls).reward == 0.0
    with PaperGrader() as released:
        assert released.grade("def f(x): return x + 1", "def f(x): return 7", {"b": "5 == f(5)"}).success


def test_a_module_that_an_answer_imports_in_a_line_of_more_is_loaded(grader):
    pytest.importorskip("numpy")
    for line in ("import math; import numpy as np", "import importlib\nnp = importlib.import_module('numpy')"):
        assert grader.grade(ADD, f"{line}\ndef f(x): return int(np.add(x, 1))", CALLS).success


def test_results_far_longer_than_the_references_are_not_kept(grader):
    calls = {f"t{i}": "f(1)" for i in range(40)}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grade = grader.grade(ADD, "import os\ndef f(x): return 'x' * 8_000_000", calls)
    assert grade.failure == "wrong value" and "8000002 bytes" in grade.tests[39].message
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KB; kept, they were 320 MB


FAILURES = {
    "no answer": None,
    "no code": "I think it adds one.",
    "syntax error": "def f(x):\n    return x +",
    "exception": "def f(x):\n    raise KeyError(x)",
    "timeout": "def f(x):\n    while True: pass",
    "memory": "def f(x):\n    return len([0] * 10**9)",
    "unserialisable": "def f(x):\n    return lambda: x",
    "forbidden": "import os\ndef f(x):\n    return os.fork()",
    "exited": "import os\ndef f(x):\n    os._exit(0)",
    "output": "def f(x):\n    return 'x' * 20_000_000",
    "wrong value": "def f(x):\n    return None",
}


@pytest.mark.parametrize("kind", FAILURES)
def test_every_failure_has_its_kind(grader, kind):
    if kind == "forbidden" and grader.level == "limits":
        pytest.skip("nothing is forbidden at the level 'limits'")
    grade = grader.grade(ADD, FAILURES[kind], CALLS)
    assert grade.reward == 0.0 and grade.failure == kind, grade
    assert [test.reason for test in grade.tests] == [kind, kind]


def test_an_exception_tells_its_message(grader):
    assert (
        grader.grade(ADD, "def f(x):\n    return g(x)", CALLS).tests[0].message == "NameError: name 'g' is not defined"
    )


def test_tests_after_one_that_hangs_or_dies_still_count(grader):
    hangs = "def f(x):\n    while x == 1: pass\n    return x + 1"
    dies = "import os\ndef f(x):\n    if x == 1: os._exit(1)\n    return x + 1"
    for answer, reason in ((hangs, "timeout"), (dies, "exited")):
        grade = grader.grade(ADD, answer, CALLS)
        assert [test.reason for test in grade.tests] == [reason, None] and grade.reward == 0.5


UNGRADABLE = {
    "fails": "def f(x):\n    return x.y",
    "syntax": "def f(x:\n    return",
    "hangs": "def f(x):\n    while True: pass",
    "random": "import random\ndef f(x):\n    return random.random()",
    "clock": "import time\ndef f(x):\n    return time.perf_counter()",
    "set order": "def f(x):\n    return list({'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'})",
    "hash": "def f(x):\n    return hash('text')",
    "untold": "def f(x):\n    return object()",
}


@pytest.mark.parametrize("name", UNGRADABLE)
def test_a_reference_that_cannot_be_trusted_makes_the_task_ungradable(grader, name):
    grade = grader.grade(UNGRADABLE[name], ADD, CALLS)
    assert grade.reward is None and grade.ungradable and "test1" in grade.ungradable
    assert grader.ungradable(UNGRADABLE[name], CALLS) == grade.ungradable


def test_a_task_without_tests_is_ungradable(grader):
    assert grader.grade(ADD, ADD, {}).ungradable == "the task has no test cases"


def test_the_reference_runs_once_for_all_its_answers(grader):
    runs = []
    original = grader._run_reference
    grader._run_reference = lambda *row: runs.append(1) or original(*row)
    jobs = [(i, ADD + "# once\n", ADD, CALLS) for i in range(20)]
    assert all(grade.success for _, grade in grader.grade_many(jobs)) and runs == [1]


def test_many_answers_come_back_in_their_order(grader):
    jobs = [(i, ADD, f"def f(x):\n    return x + {i % 2}", CALLS) for i in range(60)]
    grades = list(grader.grade_many(jobs))
    assert [key for key, _ in grades] == list(range(60)) and [g.reward for _, g in grades] == [0.0, 1.0] * 30


def test_a_warm_process_that_dies_is_replaced(grader):
    grader.grade(ADD, ADD, CALLS)
    for idle in grader._idle.values():
        for sandbox in idle:
            sandbox._process.kill()
            sandbox._process.wait()
    assert grader.grade(ADD, "def f(x):\n    return 1 + x", CALLS).success


def test_bad_settings_are_refused():
    with pytest.raises(UserError, match="more than 0"):
        CodeGrader(timeout=0)
    with pytest.raises(UserError, match="must be one of auto, strict"):
        CodeGrader(sandbox="none")


def colbench() -> Path | None:
    root = Path(__file__).resolve().parents[3]
    for folder in (os.environ.get("SWEET_RL_COLBENCH"), root.parent / "shared" / "data" / "colbench"):
        if folder and (Path(folder) / "backend_dev.jsonl").is_file():
            return Path(folder) / "backend_dev.jsonl"
    return None


@pytest.mark.skipif(colbench() is None, reason="ColBench is not here: set SWEET_RL_COLBENCH to its folder")
def test_colbench_references_pass_all_their_tests():
    rows = [json.loads(line) for line in colbench().read_text().splitlines()]
    with CodeGrader() as grader:
        jobs = [(i, row["ground_truth"], row["ground_truth"], row["test_cases"]) for i, row in enumerate(rows)]
        grades = dict(grader.grade_many(jobs))
    gradable = [grade for grade in grades.values() if grade.ungradable is None]
    assert len(gradable) >= 0.95 * len(rows)
    assert all(grade.success for grade in gradable)
