"""Every attack of benchmarks/attack_answers.py, where it could succeed; an honest answer after each."""

import os
import socket
import subprocess
import sys
import threading
import time
from itertools import cycle

import pytest

from benchmarks.attack_answers import ATTACKS, CALLS, REFERENCE, WRONG
from benchmarks.soak_grading import left, soak
from sweet_rl.dialogues.backend.hidden_tests import CodeGrader
from sweet_rl.runs.records import Task
from tests.support.grading import grade, reasons

TASK = Task("", REFERENCE, CALLS)
ONE_CALL = Task("", REFERENCE, {"test1": "f(1)"})  # for answers that wait for their time limit, once per call
SECRET = "CANARY-77aa"


def test_no_attack_succeeds(tmp_path, monkeypatch):
    monkeypatch.setenv("CANARY", SECRET)
    canary = tmp_path / "canary.txt"
    canary.write_text(SECRET)
    before = threading.active_count(), left()["processes"], left()["descriptors"]
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        jobs, honest = {}, cycle([(REFERENCE, 1.0), (WRONG, 0.0)])
        for (kind, name), text in ATTACKS.items():
            text = text.replace("FOLDER", str(tmp_path)).replace("PORT", port)
            jobs[kind, name] = ONE_CALL if kind == "resource" else TASK, text, 0.0
            jobs["after", kind, name] = TASK, *next(honest)
        with CodeGrader(timeout=0.1, memory_mb=128, workers=4) as grader:
            grades = dict(zip(jobs, grader.grade_many(job[:2] for job in jobs.values()), strict=True))
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert {key: graded for key, graded in grades.items() if graded.reward != jobs[key][2]} == {}
    assert [key for key, graded in grades.items() if SECRET in str(graded)] == []
    assert os.listdir(tmp_path) == ["canary.txt"] and canary.read_text() == SECRET
    time.sleep(0.2)
    assert (threading.active_count(), left()["processes"], left()["descriptors"] - 1) <= (*before[:2], before[2])


def test_a_small_soak_leaves_nothing_and_judges_right():
    result = soak(300, timeout=0.05, workers=2, samples=1)
    assert result["wrong_verdicts"] == []
    assert result["left"].keys() == {"processes", "threads", "descriptors", "files"}
    assert max(result["left"].values()) <= 0  # what other tests left running may end meanwhile
    first, last = list(result["memory_mb"].values())[1], list(result["memory_mb"].values())[-1]
    assert last[0] < first[0] + 20


@pytest.fixture(scope="module")
def grader():
    """One process for each role: the answers of all tests below come after one another in it."""
    with CodeGrader(workers=1) as grader:
        yield grader


STATES = {
    "a module": "import math\nmath.seen = getattr(math, 'seen', 0) + 1\ndef f():\n    return math.seen",
    "builtins": "b = print.__self__\nb.seen = getattr(b, 'seen', 0) + 1\ndef f():\n    return b.seen",
    "a pattern": "def f():\n    match f:\n        case object(__globals__=g): b = g['__builtins__']\n"
    "    b['seen'] = b.get('seen', 0) + 1\n    return b['seen']",
    "decimal": "import decimal\ndecimal.getcontext().prec += 1\ndef f(): return decimal.getcontext().prec - 28",
    "abstract registry": "import collections.abc\nn = 2 if isinstance(3.5, collections.abc.Sized) else 1\n"
    "def f():\n    collections.abc.Sized.register(float)\n    return n",
    "numpy's settings": "import numpy as np\nn = 2 if np.geterr()['over'] == 'ignore' else 1\n"
    "np.seterr(over='ignore')\ndef f(): return n",
    "memory by its address": "import numpy as np\ndef f():\n    v = (1 << 40) + 1\n"
    "    A = type('A', (), {'_' + '_array_interface_' + '_': dict(data=(id(f.__code__.co_consts[1]) + 24, False),"
    " typestr='<u4', shape=(1,), version=3)})\n    a = np.array(A(), copy=False)\n    a += 1\n    return 1",
    "lists of urllib": "import urllib.parse\nu = urllib.parse.uses_netloc\nn = u.count('seen') + 1\n"
    "u.append('seen')\ndef f(): return n",
    "patterns": "import re\ndef f():\n    try:\n        re.match('qz', '', 0.0)\n        return 2\n"
    "    except TypeError:\n        re.match('qz', '')\n        return 1",
}  # fmt: skip


# What tests of one answer share, because they share a process.
SHARED_BY_TESTS = {"decimal", "abstract registry", "numpy's settings", "lists of urllib", "patterns"}


@pytest.mark.parametrize("name", [name for name in STATES if name not in SHARED_BY_TESTS])
def test_tests_of_honest_code_do_not_see_earlier_ones(grader, name):
    """An answer that counts its calls by a new name in a loaded module counts to one."""
    graded = grade(grader, "def f():\n    return 1", STATES[name], {f"test{i}": "f()" for i in range(3)})
    assert graded.reward == 1.0 or reasons(graded)[0] == reasons(graded)[2] == "exception", graded


@pytest.mark.parametrize("name", STATES)
def test_no_answer_sees_an_earlier_one(grader, name):
    """An answer that counts its calls, wherever it does, counts to one in each process."""
    for _ in range(2):
        graded = grade(grader, "def f():\n    return 1", STATES[name], {"test": "f()"})
        assert graded.reward == 1.0 or reasons(graded) == ["exception"], graded


LYING = "{'_' + '_hash_' + '_': lambda s: hash(%s), '_' + '_eq_' + '_': lambda s, o: True}"
POISONS = {
    "patterns": (
        f"import re\nA = type('A', (int,), {LYING % 0})\ndef f(x):\n    re.match('[a-z]', 'X', A(2))\n    return 0",
        "import re\ndef f(x):\n    return re.match('[a-z]', 'X') is None",
    ),
    "a metaclass": (
        "from typing import Type\nfrom datetime import datetime\nclass M(Type): pass\ndef f(x):\n"
        "    S = M('S', (str,), {'__eq__': lambda a, b: True, '__ne__': lambda a, b: False,"
        " '__hash__': lambda a: hash('%Y-%m-%d')})\n    datetime.strptime('01-02-2003', S('%d-%m-%Y'))\n    return 0",
        "from datetime import datetime\ndef f(x):\n    return datetime.strptime('2020-02-03', '%Y-%m-%d').day",
    ),
    "a finalizer": (
        "def arm(*_):\n    try: raise\n    except BaseException as e:\n"
        "        if type(e) is not RuntimeError: e.args = ('EVIL',)\n    box = C()\n    box.box = box\n"
        "C = type('C', (), {'__d' + 'el__': arm})\ndef f(x):\n    arm()\n    return 0",
        "def f(x):\n    try: raise ValueError('bad input')\n    except ValueError as err:\n"
        "        rows = [[i] for i in range(3000)]\n        return str(err)",
    ),
    "memory": (
        "def f(x):\n    global keep\n    keep = bytes(200 << 20)\n    return 0",
        "def f(x):\n    try: return len(bytes(200 << 20))\n    except Exception: return None",
    ),
}


@pytest.mark.parametrize("name", POISONS)
def test_what_a_module_remembers_of_one_answer_is_not_given_to_the_next(grader, name):
    """Keys of their caches that lie about what they equal."""
    poison, honest = POISONS[name]
    assert grade(grader, "def f(x): return 0", poison, {"a": "f(1)"}).reward == 1.0
    assert grade(grader, honest, honest, {"a": "f(1)"}).reward == 1.0


def test_no_answer_reads_what_an_earlier_one_returned(grader):
    """Through the frames below it, which `str.format` reaches by text."""
    reader = (
        "def f(x):\n    try: 1 / 0\n    except Exception as e:\n        for n in range(1, 9):\n            try:\n"
        "                t = '{0.__traceback__.tb_frame' + '.f_back' * n + '.f_locals}'\n"
        "                if ''.join(reversed('TERCES')) in t.format(e): return 0\n"
        "            except Exception: pass\n    return 1"
    )
    told = "def f(x): return 'SEC' + 'RET'"
    assert grade(grader, told, told, {"a": "f(1)"}).reward == 1.0
    assert grade(grader, "def f(x): return 1", reader, {"a": "f(1)"}).reward == 1.0


def test_a_text_that_hangs_the_compiler_fails_alone():
    nested = "def f(x): return " + "".join(f"(lambda a{i}: " for i in range(90)) + "x" + ")" * 90
    slow = "def f(x):\n    return " + "{" * 70 + "a" + ")" * 70
    texts = [REFERENCE, nested, slow, "\0def f(x): return", REFERENCE]
    with CodeGrader(timeout=0.2, workers=1) as grader:
        rewards = [graded.reward for graded in grader.grade_many((TASK, text) for text in texts)]
    assert rewards == [1.0, 0.0, 0.0, 0.0, 1.0]


@pytest.fixture
def busy_machine():
    """Four processes that never stop computing."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


DELAYS = {name: ATTACKS["resource", name] for name in (
    "sleep, to look like a slow machine", "many shorter sleeps", "giving its CPU away",
    "threads that keep each other from a CPU",
)} | {"computing without end": "def f(x):\n    while True: pass"}  # fmt: skip


def test_on_a_busy_machine_slow_answers_are_graded_right_and_own_delays_are_the_answer_s_fault(busy_machine):
    slow = "import time\ndef f(x):\n    while time.process_time() < 0.1: pass\n" + REFERENCE.split("\n", 1)[1]
    texts = [REFERENCE, slow, *DELAYS.values(), REFERENCE, slow]
    with CodeGrader(timeout=0.2, workers=2) as grader:
        grades = list(grader.grade_many((ONE_CALL, text) for text in texts))
    verdicts = {name: graded.reward for name, graded in zip(DELAYS, grades[2:-2], strict=True)}
    asleep = {verdicts[name] for name in ("sleep, to look like a slow machine", "many shorter sleeps")}
    assert asleep == {0.0}, grades
    assert set(verdicts.values()) == {0.0}, grades
    assert {graded.reward for graded in (*grades[:2], *grades[-2:])} == {1.0}, grades
