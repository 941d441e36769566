"""What the sandbox promises, tried plainly; `test_attacks.py` has the code that cheats."""

import os
import socket
import struct
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from sweet_rl.sandbox import confine
from sweet_rl.sandbox.modules import modules_for
from sweet_rl.sandbox.sandbox import ENVIRONMENT, Job, Pool, Sandbox, pack_tests
from sweet_rl.sandbox.values import decode

EVERYTHING = modules_for({"os", "socket", "resource", "ctypes", "asyncio"})


def job(code: str, tests: list[str]) -> Job:
    return Job([code], pack_tests([compile(test, "test", "eval") for test in tests]), len(tests), ["f"])


@pytest.fixture(scope="module")
def sandbox():
    with closing(Sandbox("seccomp", 0.5, 128, EVERYTHING)) as sandbox:
        yield sandbox


@pytest.fixture
def run(sandbox):
    """Runs the body of f() and returns what it returned, or (reason, message)."""

    def run(body: str, tests=("f()",)):
        code = "def f():\n" + "\n".join("    " + line for line in body.splitlines())
        outcomes = sandbox.run(job(code, list(tests)))
        return [decode(content) if reason == "value" else (reason, content) for reason, content in outcomes]

    return run


FORBIDDEN = {
    "read a file": "return open('/etc/passwd').read()",
    "list a folder": "import os\nreturn os.listdir('/')",
    "read the command line": "return open('/proc/self/cmdline').read()",
    "read its own memory's file": "return open('/proc/self/mem', 'rb').read(1)",
    "write a file": "return open('/tmp/escaped', 'w').write('x')",
    "make a folder": "import os\nos.mkdir('/tmp/escaped')",
    "rename a module": "import os\nos.rename(os.__file__, os.__file__ + '.old')",
    "change its folder": "import os\nos.chdir('/tmp')",
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
    "mount": "import ctypes\nif ctypes.CDLL(None).mount(b'none', b'/', b'tmpfs', 0, None): raise OSError(1, 'refused')",
    "a new namespace": "import ctypes\nif ctypes.CDLL(None).unshare(0x10000000): raise OSError(1, 'refused')",
    "trace its parent": "import ctypes, os\nif ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) < 0: raise OSError(1)",
    "a memory file": "import os\nreturn os.memfd_create('x')",
    "a shared segment": "import ctypes\nif ctypes.CDLL(None).shmget(1, 4096, 0o1600) < 0: raise OSError(1, 'refused')",
    "many open files": "import os\nreturn len([os.dup2(0, n) for n in range(4, 1000)])",
    "a thread": "import threading\nthreading.Thread(target=int).start()",
    "an event loop": "import asyncio\nasyncio.run(asyncio.sleep(0))",
    "a socket pair": "import socket\nsocket.socketpair()",
    "allocate": "return len(bytearray(1 << 30))",
    "double until it ends": "x = 'x'\nwhile True: x += x",
    "standard input": "return input()",
}  # fmt: skip


def test_what_is_forbidden_fails(run):
    outcomes = {}
    with socket.create_server(("127.0.0.1", 0)) as server:
        for name, body in FORBIDDEN.items():
            (outcomes[name],) = run(body.replace("PORT", str(server.getsockname()[1])))
            assert not Path("/tmp/escaped").exists(), name
    named = {name: outcomes[name][0] for name in ("a thread", "an event loop", "a socket pair", "fork", "write a file")}
    assert set(named.values()) == {"forbidden"}, named
    kinds = ("forbidden", "exception", "memory", "exited")
    assert {name: got for name, got in outcomes.items() if not isinstance(got, tuple) or got[0] not in kinds} == {}


def test_a_file_that_may_be_missing_is_missing(run):
    body = "import os, pathlib\nif os.path.exists('x') or pathlib.Path('x').exists(): return 1\n"
    assert run(body + "try: open('x')\nexcept FileNotFoundError: return 2") == [2]
    assert run("open('x')")[0][0] == "forbidden"


def test_the_environment_and_the_command_line_hold_nothing_of_the_grader(run):
    os.environ["SWEET_RL_TEST_SECRET"] = "hidden"
    ((_, names, *arguments),) = run("import os, sys\nreturn [[*os.environ], sys.argv, sys.orig_argv]")
    assert set(names[1:]) <= {"PYTHONHASHSEED", "LC_CTYPE", *ENVIRONMENT} and arguments == [["l", ""]] * 2


def test_an_answer_has_no_descriptor_of_the_process_that_forks_it_however_many_its_grader_has():
    copies = [os.dup(0) for _ in range(100)]
    look = (
        "import os\ndef f():\n    found = []\n    for number in range(300):\n        try: os.lseek(number, 0, 1)\n"
        "        except OSError as error:\n            if error.errno == 9: continue\n"
        "        found.append(number)\n    return found"
    )
    with closing(Sandbox("seccomp", 0.5, 128, ("os",))) as sandbox:
        (outcome,) = sandbox.run(job(look, ["f()"]))
    for number in copies:
        os.close(number)
    assert outcome[0] == "value" and set(decode(outcome[1])[1:]) <= {0, 1, 2, 3}


LEAK = "import builtins, random, sys\nbuiltins.leak = sys.leak = random.leak = 1\ndef f():\n    return 1"
LEAKED = "import builtins, random, sys\ndef f():\n    return [hasattr(m, 'leak') for m in (builtins, random, sys)]"


def test_one_answer_leaves_nothing_for_the_next(sandbox):
    assert sandbox.run(job(LEAK, ["f()"])) == [("value", b"1")]
    assert sandbox.run(job(LEAKED, ["f()"])) == [("value", b'["l",false,false,false]')]


def test_each_test_has_a_fresh_module_and_fails_alone(sandbox):
    counter = "seen = []\ndef f(x=1):\n    seen.append(x)\n    return len(seen) + 3 // x"
    first, zero, third = sandbox.run(job(counter, ["f()", "f(0)", "f(2)"]))
    assert first == ("value", b"4") and third == ("value", b"2")
    assert zero[0] == "exception" and "ZeroDivision" in zero[1]


def test_a_test_that_ends_its_process_after_others_is_tried_again_by_itself(sandbox):
    """What the tests before it used up, memory for example, is not its fault."""
    keeps = "import math\ndef f(n):\n    math.pi = bytes(80 << 20), math.pi\n    return n"
    assert sandbox.run(job(keeps, ["f(1)", "f(2)", "f(3)"])) == [("value", b"1"), ("value", b"2"), ("value", b"3")]
    exits = "import os\ndef f(n):\n    if n == 2: os._exit(3)\n    return n"
    outcomes = sandbox.run(job(exits, ["f(1)", "f(2)", "f(3)"]))
    assert [reason for reason, _ in outcomes] == ["value", "exited", "value"]


def test_cpu_time_is_limited_and_after_two_tests_out_of_time_the_others_are_not_run(sandbox):
    outcomes = sandbox.run(job("def f():\n    while True: pass", ["f()"] * 4))
    assert [reason for reason, _ in outcomes] == ["timeout"] * 4
    assert "over" in outcomes[1][1] and "not run" in outcomes[2][1]


def test_time_asleep_is_limited_by_the_clock():
    with closing(Sandbox("seccomp", 0.05, 128, ("time",))) as sandbox:
        (outcome,) = sandbox.run(job("import time\ndef f():\n    time.sleep(60)", ["f()"]))
    assert outcome == ("timeout", "over 1 s by the clock")


def test_what_a_child_sends_unasked_is_never_the_outcome_of_the_next_answer(sandbox):
    forged = "def f():\n    import os\n    os.write(3, b'V1\\n' * 3)\n    return 5"
    assert len(sandbox.run(job(forged, ["f()"]))) == 1
    assert sandbox.run(job("def f():\n    return 7", ["f()"])) == [("value", b"7")]


def test_an_answer_is_run_once_more_if_its_server_ends():
    with closing(Pool("seccomp", 0.5, 128, workers=1)) as pool:
        answer = job("def f():\n    return 1", ["f()"])
        assert pool.run("answer", 0, answer, set()) == [("value", b"1")]
        ((_, sandbox),) = pool._idle
        sandbox._process.kill()
        sandbox._process.wait()
        assert pool.run("answer", 0, answer, set()) == [("value", b"1")]


def test_without_a_sandbox_answers_are_plain_processes_whose_time_is_limited(tmp_path):
    """Memory is not limited; the clock works where no CPU clock can be read (macOS)."""
    with closing(Pool("none", 0.3, 1, workers=1)) as pool:
        write = f"def f():\n    with open('{tmp_path}/a', 'w') as file: return file.write('x' * 2_000_000)"
        assert pool.run("answer", 0, job(write, ["f()"]), set()) == [("value", b"2000000")]
        forks = "import os, time\ndef f():\n    if os.fork() == 0: time.sleep(600)\n    while True: pass"
        assert pool.run("answer", 0, job(forks, ["f()"]), {"os"})[0][0] == "timeout"


def test_a_system_without_a_filter_is_refused_with_what_to_do():
    """In a process that may not set filters, as on a kernel without seccomp."""
    program = (
        "import ctypes, struct, sys\nfrom sweet_rl.sandbox import confine\n"
        "lines = [(0x20, 0, 0, 0), (0x15, 0, 1, {'x86_64': 157, 'aarch64': 167}[__import__('os').uname().machine]),"
        " (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7FFF0000)]\n"
        "code = ctypes.create_string_buffer(b''.join(struct.pack('=HBBI', *line) for line in lines), 32)\n"
        "both = ctypes.create_string_buffer(struct.pack('@HP', 4, ctypes.addressof(code)), 16)\n"
        "prctl = ctypes.CDLL(None).prctl\nprctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]\n"
        "assert prctl(38, 1, 0, 0, 0) == 0 and prctl(22, 2, ctypes.addressof(both), 0, 0) == 0\n"
        "from sweet_rl.sandbox.sandbox import check_level\ncheck_level('none')\ncheck_level('seccomp')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "SandboxUnavailable" in done.stderr and "--sandbox none" in done.stderr, done.stderr


ALLOW, REFUSE, NO_FILE = 0x7FFF0000, 0x50001, 0x50002


def test_the_filter_allows_the_listed_calls_and_no_other():
    """The filter's program, interpreted here for every number on both processors, says what the tables say."""
    for column, (machine, (_, architecture)) in enumerate(confine.MACHINES.items()):
        program = confine.filter_program(machine)
        expected = dict.fromkeys([*range(1100), 0x40000000, 0x40000001, 2**32 - 1], REFUSE)
        expected |= {numbers[column]: NO_FILE for numbers in confine.NO_FILE_CALLS.values()}
        expected |= {numbers[column]: ALLOW for numbers in confine.CALLS.values()}
        expected.pop(-1, None)  # the mark of a call that the processor lacks
        assert {number: verdict(program, architecture, number) for number in expected} == expected
        assert verdict(program, 0x40000003, 1) == 0x80000000  # 32-bit calls end the process


def verdict(program: bytes, architecture: int, number: int) -> int:
    """What a filter says of one call, by the rules of classic BPF."""
    data = struct.pack("=II", number, architecture)
    lines = list(struct.iter_unpack("=HBBI", program))
    here = loaded = 0
    while True:
        code, if_true, if_false, k = lines[here]
        here += 1
        if code == confine.RETURN:
            return k
        if code == confine.LOAD:
            loaded = struct.unpack_from("=I", data, k)[0]
        elif code == confine.JUMP:
            here += k
        else:
            here += if_true if loaded == k else if_false
