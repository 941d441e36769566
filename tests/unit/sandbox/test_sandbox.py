"""What each level of the sandbox promises, tried plainly; `test_attacks.py` has the code that cheats."""

import os
import socket
import struct
import subprocess
import sys
import zoneinfo
from contextlib import closing
from pathlib import Path

import pytest

from sweet_rl.sandbox import confine
from sweet_rl.sandbox.modules import modules_for
from sweet_rl.sandbox.sandbox import Job, Sandbox, SandboxUnavailable, available_level, pack_tests
from sweet_rl.sandbox.values import decode

ROOT = Path(__file__).resolve().parents[3]
EVERYTHING = modules_for({"os"})


def job(code: str, tests: list[str]) -> Job:
    return Job([code], pack_tests([compile(test, "test", "eval") for test in tests]), len(tests), ["f"])


def levels():
    offered = []
    for level in ("strict", "seccomp", "limits"):
        try:
            available_level(level)
            offered.append(level)
        except SandboxUnavailable:
            continue
    return offered


@pytest.fixture(scope="module", params=levels())
def sandbox(request):
    sandbox = Sandbox(request.param, 0.5, 128, EVERYTHING)
    yield sandbox
    sandbox.close()


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
    "list the process's folder": "import os\nreturn os.listdir('/proc/self')",
    "read the command line": "return open('/proc/self/cmdline').read()",
    "read its own memory's file": "return open('/proc/self/mem', 'rb').read(1)",
    "leave by dot dot": "return open('../../../../../../etc/passwd').read()",
    "write outside": "return open('/tmp/escaped', 'w').write('x')",
    "write to the root": "return open('/escaped', 'w').write('x')",
    "change the interpreter": "import os\nreturn open(os.__file__, 'r+').fileno()",
    "remove a module": "import os\nos.rename(os.__file__, os.__file__ + '.old')",
    "put a module beside them": "import os\nopen(os.path.dirname(os.__file__) + '/escaped.py', 'w')",
    "leave the interpreter": "import os\nreturn open(os.path.dirname(os.__file__) + '/..' * 9 + '/etc/passwd').read()",
    "run the interpreter's programs": "import os\nos.execv(os.path.dirname(os.__file__) + '/../../bin/python3', ['x'])",
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


# Of these the level 'limits' promises only what ends with the process itself.
AT_LIMITS = {"many open files", "allocate", "double until it ends", "standard input", "raise its limits"}


def test_what_is_forbidden_fails(run, sandbox):
    outcomes = {}
    with socket.create_server(("127.0.0.1", 0)) as server:
        for name in AT_LIMITS if sandbox.level == "limits" else FORBIDDEN:
            (outcomes[name],) = run(FORBIDDEN[name].replace("PORT", str(server.getsockname()[1])))
            assert not Path("/tmp/escaped").exists() and not Path("/escaped").exists(), name
    kinds = ("forbidden", "exception", "memory", "exited")
    assert {name: got for name, got in outcomes.items() if not isinstance(got, tuple) or got[0] not in kinds} == {}


WALK = """
import os, sys, zoneinfo
def f():
    shown, files = [*sys.path, *zoneinfo.TZPATH, os.getcwd()], []
    for folder, folders, names in os.walk('/'):
        if folder in shown:
            folders.clear()
        else:
            files += [f'{folder}/{name}' for name in names]
    return files, sorted(os.path.basename(folder) for folder in os.listdir('/'))
"""


@pytest.mark.parametrize("sandbox", [level for level in levels() if level == "strict"], indirect=True)
def test_at_strict_no_file_is_there_outside_of_the_interpreter_s_folders(sandbox):
    (outcome,) = sandbox.run(job(WALK, ["f()"]))
    _, files, root = decode(outcome[1])
    tops = {path.split("/")[1] for path in [*sys.path, *zoneinfo.TZPATH] if path.startswith("/")}
    assert files == ["l"] and "scratch" in root and set(root[1:]) <= {"scratch", *tops}


NEIGHBOURS = """
import importlib, os, sys
def f():
    package = importlib.import_module('installed_beside')
    folder = os.path.dirname(package.__file__)
    found = [os.listdir(folder + '/../..' * n) for n in (1, 2)]
    for path in ('/../../../../runs/canary.txt', '/../link'):
        try: found.append(open(folder + path).read())
        except OSError as error: found.append(type(error).__name__)
    return package.VALUE, found
"""


@pytest.mark.parametrize("level", [level for level in levels() if level == "strict"])
def test_of_an_environment_in_a_project_only_the_packages_are_there(level, tmp_path, monkeypatch):
    """Also in a folder that `nobody` may not pass, and that the new root covers."""
    packages = tmp_path / "project" / ".venv" / "lib" / "site-packages"
    (packages / "installed_beside").mkdir(parents=True)
    (packages / "installed_beside" / "__init__.py").write_text("VALUE = 7\n")
    (tmp_path / "project" / "runs").mkdir()
    (tmp_path / "project" / "runs" / "canary.txt").write_text("CANARY")
    (packages / "link").symlink_to(tmp_path / "project" / "runs" / "canary.txt")
    (tmp_path / "project").chmod(0o700)
    monkeypatch.setattr(sys, "path", [*sys.path, str(packages), str(tmp_path / "project")])
    sandbox = Sandbox(level, 0.5, 128, EVERYTHING)
    try:
        (outcome,) = sandbox.run(job(NEIGHBOURS, ["f()"]))
    finally:
        sandbox.close()
    no_file = "FileNotFoundError"
    found = ["l", ["l", "site-packages"], ["l", ".venv"], no_file, no_file]
    assert outcome[0] == "value" and decode(outcome[1]) == ["t", 7, found], outcome


def test_the_environment_and_the_command_line_are_empty(run):
    os.environ["SWEET_RL_TEST_SECRET"] = "hidden"
    body = "import os, sys\nreturn [dict(os.environ), sys.argv, sys.orig_argv, str(os.environb)]"
    (outcome,) = run(body)
    assert "hidden" not in str(outcome) and outcome[1] == ["d"] and outcome[2] == ["l", ""] == outcome[3]


def test_a_thread_does_not_outlive_its_answer(run):
    body = "import threading, time\nthreading.Thread(target=lambda: time.sleep(10**6)).start()\nreturn 1"
    assert run(body) == run("return 1") == [1]  # the next answer starts after all of the last one has ended


CROWD = """import os, threading, time
open("/proc/self/comm", "wb").write(b"\\xff")  # a name that is no text
os.getuid() or os.setuid(65534)  # the user that answers are run by
for _ in range(100):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("ready", flush=True)
time.sleep(60)"""


@pytest.mark.parametrize("level", levels())
def test_other_programs_of_the_same_user_take_no_threads_from_an_answer(level):
    code = "import threading\ndef f():\n    threading.Thread(target=int).start()\n    return 1"
    with subprocess.Popen([sys.executable, "-c", CROWD], stdout=subprocess.PIPE) as crowd:
        try:
            assert crowd.stdout and crowd.stdout.readline() == b"ready\n"
            with closing(Sandbox(level, 5, 128, EVERYTHING)) as sandbox:
                assert sandbox.run(job(code, ["f()"])) == [("value", b"1")]
        finally:
            crowd.kill()


LEAK = "import builtins, random, sys\nbuiltins.leak = sys.leak = random.leak = 1\ndef f():\n    return 1"
LEAKED = "import builtins, random, sys\ndef f():\n    return [hasattr(m, 'leak') for m in (builtins, random, sys)]"


def test_one_answer_leaves_nothing_for_the_next(sandbox):
    assert sandbox.run(job(LEAK, ["f()"])) == [("value", b"1")]
    assert sandbox.run(job(LEAKED, ["f()"])) == [("value", b'["l",false,false,false]')]


IMPORTS = (
    "def f(x):\n    import email.mime.text, xml.dom.minidom\n    xml.dom.minidom.parseString('<a/>')\n    return x"
)


@pytest.mark.parametrize("sandbox", [level for level in levels() if level == "strict"], indirect=True)
def test_importing_a_submodule_is_no_trace_that_needs_a_new_child(sandbox, monkeypatch):
    forks, fork = [], Sandbox._fork
    monkeypatch.setattr(Sandbox, "_fork", lambda self: forks.append(1) or fork(self))
    assert sandbox.run(job(IMPORTS, ["f(1)", "f(2)"])) == [("value", b"1"), ("value", b"2")] and len(forks) == 1


COUNTER = "seen = []\ndef f(x=1):\n    seen.append(x)\n    return len(seen) + 3 // x"


def test_every_answer_has_a_process_of_its_own_and_its_tests_share_it(sandbox, monkeypatch):
    answer, forks, fork = job(COUNTER, ["f()", "f(0)", "f(2)"]), [], Sandbox._fork
    monkeypatch.setattr(Sandbox, "_fork", lambda self: forks.append(1) or fork(self))
    for _ in range(3):
        first, zero, third = sandbox.run(answer)
        assert first == ("value", b"4") and third == ("value", b"2")  # each in a fresh module
        assert zero[0] == "exception" and "ZeroDivision" in zero[1]
    assert len(forks) == 3


def test_a_test_that_ends_its_process_after_others_is_tried_again_by_itself(sandbox):
    """What the tests before it used up, memory for example, is not its fault."""
    keeps = "import math\ndef f(n):\n    math.pi = bytes(80 << 20), math.pi\n    return n"
    assert sandbox.run(job(keeps, ["f(1)", "f(2)", "f(3)"])) == [("value", b"1"), ("value", b"2"), ("value", b"3")]
    exits = "import math, os\ndef f(n):\n    if n == 2: os._exit(3)\n    return n"
    outcomes = sandbox.run(job(exits, ["f(1)", "f(2)", "f(3)"]))
    assert outcomes == [("value", b"1"), ("exited", "the process ended itself with status 3"), ("value", b"3")]


def test_what_a_child_sends_unasked_is_never_the_outcome_of_the_next_answer(sandbox):
    forged = "def f():\n    import os\n    os.write(3, b'\\2\\0\\0\\0V1' * 3)\n    return 5"
    assert len(sandbox.run(job(forged, ["f()"]))) == 1
    assert sandbox.run(job("def f():\n    return 7", ["f()"])) == [("value", b"7")]


@pytest.mark.parametrize("sandbox", [level for level in levels() if level != "limits"], indirect=True)
def test_pairs_of_sockets_are_of_this_machine_alone(sandbox, run):
    body = (
        "import _socket\nfor end in _socket.socketpair(): end.close()\n"
        "try: _socket.socketpair(_socket.AF_INET6)\nexcept OSError as error: return error.errno"
    )
    assert run(body) == [1]  # EPERM, of the filter; the kernel itself would say that it does not support it


@pytest.mark.parametrize("level", levels())
def test_an_answer_has_no_descriptor_of_the_process_that_forks_it_however_many_its_grader_has(level):
    copies = [os.dup(0) for _ in range(100)]
    look = (
        "import os\ndef f():\n    found = []\n    for number in range(300):\n        try: os.fstat(number)\n"
        "        except OSError: continue\n        found.append(number)\n    return found"
    )
    sandbox = Sandbox(level, 0.5, 128, ("os",))
    try:
        (outcome,) = sandbox.run(job(look, ["f()"]))
    finally:
        sandbox.close()
        for number in copies:
            os.close(number)
    assert outcome[0] == "value" and set(decode(outcome[1])[1:]) <= {0, 1, 2, 3}


@pytest.mark.parametrize("sandbox", [level for level in levels() if level == "strict"], indirect=True)
def test_the_scratch_folder_is_emptied_and_small(sandbox):
    fill = "import os\ndef f():\n    os.makedirs('a/b')\n    open('a/b/c', 'w').write('x')\n    return 1"
    full = "def f():\n    for i in range(3): open(str(i), 'wb').write(bytes(10 << 20))"
    assert sandbox.run(job(fill, ["f()", "f()"])) == [("value", b"1"), ("value", b"1")]
    assert sandbox.run(job("import os\ndef f():\n    return os.listdir('.')", ["f()"])) == [("value", b'["l"]')]
    assert sandbox.run(job(full, ["f()"]))[0][0] == "exception"
    assert sandbox.run(job(fill, ["f()"])) == [("value", b"1")]


@pytest.mark.parametrize("level", levels())
def test_no_process_is_left_when_the_sandbox_closes(level):
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    if not children.exists():
        pytest.skip("no /proc here")
    before = children.read_text()
    sandbox = Sandbox(level, 0.5, 128)
    sandbox.run(job("def f():\n    return 1", ["f()"]))
    inner = sandbox._process.pid
    sandbox.close()
    assert children.read_text() == before and not Path(f"/proc/{inner}").exists()


class Clock:
    """A machine that gives the child of a sandbox `share` of a CPU."""

    def __init__(self, monkeypatch, share: float, sleeps: bool):
        self.now, self.share, self.sleeps = 0.0, share, sleeps
        monkeypatch.setattr("sweet_rl.sandbox.sandbox.time.monotonic", lambda: self.now)
        monkeypatch.setattr(Sandbox, "_cpu_seconds", lambda _: 0.0 if self.sleeps else self.share * self.now)
        monkeypatch.setattr(
            Sandbox, "_seconds_without_cpu", lambda _: 0.0 if self.sleeps else (1 - self.share) * self.now
        )

    def read(self, outcomes, seconds):
        self.now += 0.1


@pytest.mark.parametrize(
    ("share", "sleeps", "reason", "after"),
    [
        (1.0, False, "timeout", 0.5),  # busy on a free machine: the CPU limit
        (0.25, False, "timeout", 2.0),  # busy on a loaded machine: the CPU limit, later
        (0.01, False, "machine", 15.0),  # hardly ever given a CPU
        (0.01, True, "timeout", 1.5),  # asleep: its own fault, however loaded the machine is
    ],
)
def test_only_waiting_for_a_cpu_is_a_failure_of_the_machine(sandbox, monkeypatch, share, sleeps, reason, after):
    clock = Clock(monkeypatch, share, sleeps)
    ending = sandbox._next(clock, [])
    assert ending[0] == reason and clock.now == pytest.approx(after, abs=0.25)


def test_the_wait_for_a_cpu_is_read_of_the_child_and_not_of_another_process(sandbox):
    with sandbox._fork() as connection:  # a child that waits for its job sleeps
        waited = sandbox._seconds_without_cpu()
        assert 0.0 <= waited and sandbox._cpu_seconds() < 0.5
        path = Path(f"/proc/{sandbox._process.pid}/task/{sandbox._process.pid}/children")
        assert not path.exists() or path.read_text().split()
        connection.close()
    sandbox._end_child()
    assert sandbox.run(job("def f():\n    return 1", ["f()"])) == [("value", b"1")]


def test_a_thread_that_gives_up_its_cpu_often_has_no_excuse_and_at_limits_none_has(tmp_path, monkeypatch):
    monkeypatch.setattr("sweet_rl.sandbox.sandbox.Path", lambda path: tmp_path / path.lstrip("/"))
    sandbox = Sandbox.__new__(Sandbox)
    sandbox._process = subprocess.Popen.__new__(subprocess.Popen)
    sandbox._process.pid, sandbox._process._child_created = 5, False
    for pid, child in ((5, 6), (6, 7)):
        (tmp_path / f"proc/{pid}/task/{pid}").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/task/{pid}/children").write_text(f"{child} ")
    for thread, switches, waited in ((7, 3, 2), (8, 199, 4), (9, 200, 9)):
        (tmp_path / f"proc/7/task/{thread}").mkdir(parents=True)
        status = f"Name:\tx\nvoluntary_ctxt_switches:\t{switches}\nnonvoluntary_ctxt_switches:\t999\n"
        (tmp_path / f"proc/7/task/{thread}/status").write_text(status)
        (tmp_path / f"proc/7/task/{thread}/schedstat").write_text(f"1 {waited * 10**9} 3\n")
    waits = {}
    for sandbox.level in ("strict", "limits"):
        waits[sandbox.level] = sandbox._seconds_without_cpu()
    assert waits == {"strict": 4.0, "limits": 0.0}


def test_after_two_tests_out_of_time_the_others_are_not_run(sandbox, monkeypatch):
    monkeypatch.setattr(Sandbox, "_run_child", lambda self, job, first: ([], ("timeout", "over")))
    messages = [message for _, message in sandbox.run(Job(["x"], b"", 4))]
    assert messages[:2] == ["over", "over"] and all("not run" in message for message in messages[2:])


def test_the_filter_allows_the_listed_calls_and_no_other():
    """The filter's program, interpreted here for every number on both processors, says what the tables say."""
    for column, architecture in enumerate((0xC000003E, 0xC00000B7)):
        for files in (False, True):
            system_call_filter = confine.SystemCallFilter.__new__(confine.SystemCallFilter)
            system_call_filter._column = column
            program = system_call_filter._program(architecture, files)
            tables = [confine.PURE_CALLS, confine.FILE_CALLS] if files else [confine.PURE_CALLS]
            listed = {numbers[column] for table in tables for numbers in table.values()} - {-1}
            checked = {(56, 220), (72, 25), (16, 29), (302, 261), (53, 199), (24, 124)}
            for number in [*range(1100), 0x40000000, 0x40000001, 2**32 - 1]:
                if number not in {pair[column] for pair in checked}:
                    assert (verdict(program, architecture, number) == ALLOW) == (number in listed), number
            assert verdict(program, architecture, 24 if column == 0 else 124) == 0x50000  # sched_yield: does nothing
            clone, prlimit = (56, 302) if column == 0 else (220, 261)
            assert verdict(program, architecture, clone, [0x11]) == REFUSE  # fork
            assert verdict(program, architecture, clone, [0x3D0F00]) == ALLOW  # a thread
            assert verdict(program, architecture, clone, [0x3D0F00 | 0x10000000]) == REFUSE  # with a namespace
            assert verdict(program, architecture, prlimit, [0]) == ALLOW
            assert verdict(program, architecture, prlimit, [1]) == REFUSE
            assert verdict(program, 0x40000003, 1) == 0x80000000  # 32-bit calls end the process


ALLOW, REFUSE = 0x7FFF0000, 0x50001


def verdict(program: bytes, architecture: int, number: int, arguments=()) -> int:
    """What a filter says of one call, by the rules of classic BPF."""
    data = struct.pack("=IIQ", number, architecture, 0) + b"".join(struct.pack("=Q", a) for a in arguments)
    data = data.ljust(64, b"\0")
    lines = list(struct.iter_unpack("=HBBI", program))
    here = a = x = 0
    while True:
        code, if_true, if_false, k = lines[here]
        here += 1
        if code == 0x06:
            return k
        if code == 0x20:
            a = struct.unpack_from("=I", data, k)[0]
        elif code == 0x00:
            a = k
        elif code == 0x07:
            x = a
        elif code == 0x54:
            a &= k
        elif code == 0x6C:
            a = a << x & 0xFFFFFFFF
        else:
            here += if_true if {0x15: a == k, 0x35: a >= k, 0x45: bool(a & k)}[code] else if_false


def without_namespaces(*command: str) -> subprocess.CompletedProcess:
    """Run where no further user namespace can be made, as in default Docker; skips where that cannot be set up."""
    shut = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    program = ["unshare", "--user", "--map-root-user", "sh", "-c", shut, "sh", *command]
    try:
        done = subprocess.run(program, capture_output=True, text=True, env=dict(os.environ, PYTHONPATH=str(ROOT)))
    except OSError:
        pytest.skip("no unshare here")
    if "max_user_namespaces" in done.stderr or done.stderr.startswith("unshare"):
        pytest.skip("no user namespaces here")
    return done


def test_strict_refuses_where_there_are_no_namespaces_and_auto_says_what_it_takes():
    program = (
        "from sweet_rl.dialogues.backend.hidden_tests import CodeGrader\nfrom sweet_rl.runs.records import Task\n"
        "try: CodeGrader(sandbox='strict')\nexcept Exception as error: print(type(error).__name__, error)\n"
        "code = 'def f(x): return x'\nwith CodeGrader(workers=1) as grader:\n"
        "    print(grader.describe(), grader.grade(Task('', code, {'t': 'f(1)'}), code).reward)"
    )
    done = without_namespaces(sys.executable, "-c", program)
    refused, taken = done.stdout.splitlines() if done.returncode == 0 else (done.stderr, "")
    assert refused.startswith("SandboxUnavailable") and "'strict'" in refused
    assert "seccomp" in taken and "'strict'" in taken and taken.endswith(" 1.0")


def test_an_unavailable_level_is_refused_by_name(monkeypatch):
    monkeypatch.setattr("sweet_rl.sandbox.sandbox.Sandbox.__init__", _refuse)
    with pytest.raises(SandboxUnavailable, match="'strict' is not available"):
        available_level("strict")


def _refuse(self, level, **_):
    raise SandboxUnavailable(f"The sandbox level '{level}' is not available: unshare: Operation not permitted.")


def test_a_warm_process_that_hangs_at_its_start_is_ended(tmp_path, monkeypatch):
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr("sweet_rl.sandbox.sandbox.START_SECONDS", 0.05)
    with pytest.raises(SandboxUnavailable, match="did not start within"):
        Sandbox("limits", 1.0, 64)
