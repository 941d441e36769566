"""What an adversary tries: every attack, at every level that this machine offers."""

import marshal
import os
import socket
import time
from pathlib import Path

import pytest

from sweet_rl.grading.code import CodeGrader
from sweet_rl.grading.modules import modules_for
from sweet_rl.grading.sandbox import Job, Sandbox, SandboxUnavailable, available_level
from sweet_rl.grading.values import decode

SECRET = "def f(x):\n    return 982451653 * x + 1\n"
CALLS = {"test1": "f(1)", "test2": "f(2)"}


EVERYTHING = modules_for({"os"})


def job(code: str, tests: list[str]) -> Job:
    calls = marshal.dumps([compile(test, "test", "eval") for test in tests])
    return Job(marshal.dumps(compile(code, "answer.py", "exec")), calls, len(tests), "f")


def levels():
    offered = []
    for level in ("strict", "seccomp"):
        try:
            available_level(level)
            offered.append(level)
        except SandboxUnavailable:
            continue
    return offered


@pytest.fixture(scope="module", params=levels())
def grader(request):
    with CodeGrader(timeout=0.5, memory_mb=128, workers=1, sandbox=request.param) as grader:
        yield grader


@pytest.fixture
def run(grader):
    """Runs the body of f() and returns what it returned, or (reason, message)."""

    def run(body: str, tests=("f()",)):
        code = "def f():\n" + "\n".join("    " + line for line in body.splitlines())
        sandbox = Sandbox(grader.level, 0.5, 128, EVERYTHING)
        try:
            outcomes = sandbox.run(job(code, list(tests)))
        finally:
            sandbox.close()
        return [decode(content) if reason == "value" else (reason, content) for reason, content in outcomes]

    return run


LIARS = {
    "always equal": "class A:\n    def __eq__(self, o): return True\n    __hash__ = int\ndef f(x): return A()",
    "an int that lies": "class A(int):\n    def __eq__(self, o): return True\ndef f(x): return A(0)",
    "a lying class": "class A:\n    __class__ = int\n    def __eq__(self, o): return True\ndef f(x): return A()",
    "a lying repr": "class A:\n    def __repr__(self): return '982451654'\ndef f(x): return A()",
    "patched builtins": "import builtins\nbuiltins.isinstance = builtins.all = lambda *a: True\ndef f(x): return 0",
    "patched json": "import json\njson.dumps = lambda *a, **k: '[\"value\", true]'\ndef f(x): return 0",
    "passes printed": "def f(x):\n    print('passed', 'ok', True)\n    return 0",
    "exit with success": "import sys\ndef f(x): sys.exit(0)",
    "quick exit": "import os\ndef f(x): os._exit(0)",
    "early exit": "import os\nos._exit(0)\ndef f(x): return 0",
    "forged frame": "import os, struct\ndef f(x):\n    d = b'[\"passed\", true]'\n"
    "    os.write(3, struct.pack('=I', len(d)) + d)\n    return 0",
    "garbage frame": "import os\ndef f(x):\n    os.write(3, b'\\xff' * 4096)\n    return 0",
    "half a frame": "import os\ndef f(x):\n    os.write(3, b'\\x09\\0\\0\\0[')\n    os._exit(0)",
    "every descriptor": "import os\ndef f(x):\n    for n in range(64):\n"
    "        try: os.write(n, b'D\\0\\0\\0\\0true')\n        except OSError: pass\n    return 0",
    "patched equality": "import operator, math\noperator.eq = math.isclose = lambda *a, **k: True\ndef f(x): return 0",
    "swallowed timeout": "def f(x):\n    while True:\n        try:\n            while True: pass\n"
    "        except BaseException: pass",
    "ignored signals": "import signal\nfor s in range(1, 32):\n    try: signal.signal(s, signal.SIG_IGN)\n"
    "    except Exception: pass\ndef f(x):\n    while True: pass",
    "pickle bomb": "class A:\n    def __reduce__(self): return (eval, ('1',))\n    x = 1\ndef f(x): return A()",
    "reference on the stack": "import sys\ndef f(x):\n    n = ''.join(reversed('356154289'))\n"
    "    frame = sys._getframe().f_back\n    while frame:\n"
    "        for value in [*frame.f_locals.values(), *frame.f_globals.values()]:\n"
    "            if n in repr(value)[:10**6]: return int(n) * x + 1\n        frame = frame.f_back\n    return 0",
    "reference in memory": "import gc\ndef f(x):\n    n = ''.join(reversed('356154289'))\n    gc.unfreeze()\n"
    "    for o in gc.get_objects():\n        if isinstance(o, (list, dict, tuple)) and n in repr(o)[:10**5]:\n"
    "            return int(n) * x + 1\n    return 0",
}  # fmt: skip


@pytest.mark.parametrize("name", LIARS)
def test_nothing_that_is_wrong_passes(grader, name):
    grade = grader.grade(SECRET, LIARS[name], CALLS)
    assert grade.reward == 0.0 and not any(test.passed for test in grade.tests), grade.tests


def test_after_every_attack_honest_answers_are_graded_right(grader):
    for attack in LIARS.values():
        grader.grade(SECRET, attack, CALLS)
        assert grader.grade(SECRET, SECRET, CALLS).success


FORBIDDEN = {
    "read a file": "return open('/etc/passwd').read()",
    "list the root": "import os\nassert not [n for n in os.listdir('/') if n != 'scratch']\nraise OSError",
    "list the process's folder": "import os\nreturn os.listdir('/proc/self')",
    "read the command line": "return open('/proc/self/cmdline').read()",
    "read its own memory's file": "return open('/proc/self/mem', 'rb').read(1)",
    "leave by dot dot": "return open('../../../../../../etc/passwd').read()",
    "write outside": "return open('/tmp/escaped', 'w').write('x')",
    "write to the root": "return open('/escaped', 'w').write('x')",
    "read the interpreter": "import os\nreturn open(os.__file__).read()",
    "connect": "import socket\nreturn socket.create_connection(('127.0.0.1', PORT)).fileno()",
    "a datagram": "import socket as s\nreturn s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
    "a unix socket": "import socket\nreturn socket.socket(socket.AF_UNIX).connect('/tmp/x')",
    "listen": "import socket\nreturn socket.create_server(('127.0.0.1', 0)).fileno()",
    "fork": "import os\nreturn os.fork()",
    "spawn": "import os\nreturn os.spawnv(os.P_WAIT, '/bin/true', ['true'])",
    "system": "import os\nassert os.system('true') == 0",
    "exec": "import os\nos.execv('/bin/true', ['true'])",
    "kill its parent": "import os\nos.kill(os.getppid(), 9)",
    "kill everyone": "import os\nos.kill(-1, 9)",
    "raise its limits": "import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
    "limit its parent": "import os, resource\nresource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))",
    "become root": "import os\nos.setuid(0 if os.getuid() else 1)",
    "change its root": "import os\nos.chroot('.')",
    "mount": "import ctypes\nif ctypes.CDLL(None).mount(b'none', b'/', b'tmpfs', 0, None): raise OSError(1, 'refused')",
    "a new namespace": "import ctypes\nif ctypes.CDLL(None).unshare(0x10000000): raise OSError(1, 'refused')",
    "trace its parent": "import ctypes, os\nif ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) < 0: raise OSError(1)",
    "a memory file": "import os\nreturn os.memfd_create('x')",
    "a shared segment": "import ctypes\nif ctypes.CDLL(None).shmget(1, 4096, 0o1600) < 0: raise OSError(1, 'refused')",
    "many open files": "import os\nreturn len([os.dup(0) for _ in range(1000)])",
    "allocate": "return len(bytearray(1 << 30))",
    "double until it ends": "x = 'x'\nwhile True: x += x",
    "standard input": "return input()",
}  # fmt: skip


@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_is_forbidden_fails(run, name):
    with socket.create_server(("127.0.0.1", 0)) as server:
        (outcome,) = run(FORBIDDEN[name].replace("PORT", str(server.getsockname()[1])))
    assert isinstance(outcome, tuple) and outcome[0] in ("forbidden", "exception", "memory", "exited"), outcome
    assert not Path("/tmp/escaped").exists() and not Path("/escaped").exists()


def test_the_environment_and_the_command_line_are_empty(run):
    os.environ["SWEET_RL_TEST_SECRET"] = "hidden"
    body = "import os, sys\nreturn [dict(os.environ), sys.argv, sys.orig_argv, str(os.environb)]"
    (outcome,) = run(body)
    assert "hidden" not in str(outcome) and outcome[1] == ["d"] and outcome[2] == ["l", ""] == outcome[3]


def test_a_thread_does_not_outlive_its_answer(run):
    body = "import threading, time\nthreading.Thread(target=lambda: time.sleep(60)).start()\nreturn 1"
    start = time.monotonic()
    assert run(body) == [1] and time.monotonic() - start < 3


def test_sleeping_is_a_timeout(run):
    (outcome,) = run("import time\ntime.sleep(60)")
    assert outcome[0] == "timeout"


def test_much_printing_does_no_harm(run):
    assert run("for _ in range(20000): print('x' * 1000)\nreturn 1") == [1]


def test_one_answer_leaves_nothing_for_the_next(grader):
    sandbox = Sandbox(grader.level, 0.5, 128, EVERYTHING)
    try:
        before = "import builtins, random, sys\nbuiltins.leak = sys.leak = random.leak = 1\ndef f():\n    return 1"
        after = (
            "import builtins, random, sys\ndef f():\n    return [hasattr(m, 'leak') for m in (builtins, random, sys)]"
        )
        assert sandbox.run(job(before, ["f()"])) == [("value", b"1")]
        assert sandbox.run(job(after, ["f()"])) == [("value", b'["l",false,false,false]')]
    finally:
        sandbox.close()


def test_the_scratch_folder_is_emptied_and_small(grader):
    if grader.level != "strict":
        pytest.skip("only the strict level has a scratch folder")
    fill = "import os\ndef f():\n    os.makedirs('a/b')\n    open('a/b/c', 'w').write('x')\n    return 1"
    full = "def f():\n    for i in range(3): open(str(i), 'wb').write(bytes(10 << 20))"
    sandbox = Sandbox("strict", 0.5, 128, EVERYTHING)
    try:
        assert sandbox.run(job(fill, ["f()"])) == [("value", b"1")]
        assert sandbox.run(job("import os\ndef f():\n    return os.listdir('.')", ["f()"])) == [("value", b'["l"]')]
        assert sandbox.run(job(full, ["f()"]))[0][0] == "exception"
        assert sandbox.run(job(fill, ["f()"])) == [("value", b"1")]
    finally:
        sandbox.close()


def test_no_process_is_left_when_the_sandbox_closes(grader):
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    if not children.exists():
        pytest.skip("no /proc here")
    before = children.read_text()
    sandbox = Sandbox(grader.level, 0.5, 128, EVERYTHING)
    sandbox.run(job("def f():\n    return 1", ["f()"]))
    inner = sandbox._process.pid
    sandbox.close()
    assert children.read_text() == before and not Path(f"/proc/{inner}").exists()


def test_an_unavailable_level_is_refused_by_name(monkeypatch):
    monkeypatch.setattr("sweet_rl.grading.sandbox.Sandbox.__init__", _refuse)
    with pytest.raises(SandboxUnavailable, match="'strict' cannot be had"):
        available_level("strict")


def _refuse(self, level, **_):
    raise SandboxUnavailable(f"The sandbox level '{level}' cannot be had here: unshare: Operation not permitted.")
