"""Client of the fork server: hand an answer to one of its children, read the results, limit the time.

`sweet_rl/sandbox/__init__.py` says what is promised.
"""

import json
import marshal
import math
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

from sweet_rl.runs.errors import UserError
from sweet_rl.sandbox.modules import modules_for

LEVELS = ("seccomp", "none")
SERVER = Path(__file__).with_name("fork_server.py")
# OPENBLAS and OMP: numpy computes in one thread. LD_BIND_NOW: symbols are bound once at the start, not by each child.
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "LD_BIND_NOW": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
REASONS = {"exception", "memory", "unserialisable", "forbidden", "missing module", "syntax error"}
NO_RESULT = ("unserialisable", "the process wrote something that is no result")
MAX_RESULT_BYTES = 8 << 20
TOO_LONG = ("output", f"a result of more than {MAX_RESULT_BYTES >> 20} MB")
MAX_TIMEOUTS = 2  # after so many tests that ran out of time, the answer's other tests are not run
CLOCK_FACTOR = 10  # seconds by the clock for each second of CPU time
POLL_SECONDS = 0.02  # between two looks at a child's clocks
HUNG_UP = getattr(select, "POLLRDHUP", select.POLLIN)  # on Linux: wake the reader only when the child ends
START_SECONDS = 300  # in which a fork server loads its modules
CONTROL_SECONDS = 60  # in which it forks
PID_BYTES = 10  # a child first sends its process id
REMEDY = "It needs Linux with seccomp. Elsewhere grade in a container, and there, if need be, with --sandbox none."

Outcome = tuple[str, "bytes | str"]


class SandboxUnavailable(UserError):
    """This system has no sandbox."""


@dataclass(frozen=True)
class Job:
    """The tests of one answer.

    Attributes:
        texts: Texts that may be the code, best first; the first that is Python and lacks no name is run.
        tests: What `pack_tests` makes of the test calls.
        count: Number of tests.
        own: The names that the calls must take from the answer, not from the prelude.
        scope: "module", or "function": what the code defines is local, as in the released grader.
    """

    texts: list[str]
    tests: bytes
    count: int
    own: Collection[str] = ()
    scope: str = "module"


def pack_tests(calls: Sequence[CodeType], prelude: CodeType | None = None) -> bytes:
    """Return the `tests` of jobs, made once per task.

    Args:
        calls: One expression per test, compiled.
        prelude: Imports and constants that only the calls see, compiled.
    """
    return marshal.dumps(([*calls], prelude))


class Sandbox:
    """One fork server. Not for use by two threads at the same time.

    Args:
        level: "seccomp" or "none".
        timeout: CPU seconds per test. The limit by the clock is ten times that, at least one second.
        memory_mb: Memory that an answer may use beyond the interpreter's own.
        modules: What is loaded before the server is confined.
        hash_seed: PYTHONHASHSEED of the server.

    Raises:
        SandboxUnavailable: The system refuses it.
    """

    def __init__(self, level: str, timeout: float, memory_mb: int, modules: tuple[str, ...] = (), hash_seed: int = 0):
        self._level, self._timeout, self._clock_timeout = level, timeout, max(CLOCK_FACTOR * timeout, 1.0)
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-s", "-B", str(SERVER), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={"PYTHONHASHSEED": str(hash_seed), **ENVIRONMENT},
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        settings = {
            "level": level,
            "memory_mb": memory_mb,
            "cpu_seconds": math.ceil(self._clock_timeout),
            "modules": list(modules),
            "path": [os.path.abspath(folder) for folder in sys.path if folder],
        }
        try:
            assert self._process.stdin is not None
            with self._process.stdin as pipe:
                pipe.write(marshal.dumps(settings))
            self._control.settimeout(START_SECONDS)
            reply = self._control.recv(1000).decode() or "its process ended while it loaded its modules"
        except OSError as error:
            reply = str(error)
        self._control.settimeout(CONTROL_SECONDS)
        if reply != "ready":
            self._process.kill()
            self.close()
            raise SandboxUnavailable(f"The sandbox does not start: {reply}. {REMEDY}")

    def run(self, job: Job) -> list[Outcome]:
        """Run all tests of one answer in children that run nothing else.

        Usually there is one child. A test that hangs or dies ends its child, and the tests after it get a new one.
        If a child ends in a later test than its first, that test is tried again as the first of a new child.

        Returns:
            One outcome per test: ("value", text), where text is untrusted (`values.decode`), or (reason, message).
            Reasons: those of `REASONS`, timeout, exited (the process ended itself or crashed), output (too much).

        Raises:
            OSError, EOFError: The fork server has ended.
        """
        outcomes: list[Outcome] = []
        timeouts = 0
        while len(outcomes) < job.count:
            if timeouts >= MAX_TIMEOUTS:
                outcomes.append(("timeout", f"not run: {timeouts} tests before it ran out of time"))
                continue
            finished, ending = self._run_child(job, len(outcomes))
            outcomes += finished
            if ending is not None and not (ending[0] == "exited" and finished):
                outcomes.append(ending)
                timeouts += ending[0] == "timeout"
        return outcomes

    def _run_child(self, job: Job, first: int) -> tuple[list[Outcome], Outcome | None]:
        """Outcomes of the tests from `first` on that one child finished, and how the next one ended it (None: all are
        finished). The child is killed in the end. The server reaps it after its next fork, so its id is not reused
        before that."""
        connection, theirs = socket.socketpair()
        with connection:
            with theirs:
                socket.send_fds(self._control, [b"J"], [theirs.fileno()])
            connection.settimeout(CONTROL_SECONDS)
            with suppress(OSError):  # a child that has ended has no results either
                connection.sendall(marshal.dumps((job.texts, job.tests, [*job.own], job.scope, first)))
                connection.shutdown(socket.SHUT_WR)
            poll = select.poll()
            poll.register(connection, HUNG_UP)
            poll.poll(POLL_SECONDS * 1000)  # most children have ended then, and wake this thread only once
            child = connection.recv(PID_BYTES)
            if not child:
                raise EOFError("the fork server of the sandbox has ended")
            try:
                return self._results(connection, poll, int(child), job.count - first)
            finally:
                for stop in (os.kill, os.killpg) if self._level == "none" else (os.kill,):
                    with suppress(ProcessLookupError, PermissionError):
                        stop(int(child), signal.SIGKILL)

    def _results(
        self, connection: socket.socket, poll: select.poll, child: int, count: int
    ) -> tuple[list[Outcome], Outcome | None]:
        """Read what a child writes. The time of a test is counted from the first look that finds no result."""
        connection.setblocking(False)
        outcomes: list[Outcome] = []
        start = None
        buffer = b""
        while len(outcomes) < count:
            poll.poll(POLL_SECONDS * 1000)
            try:
                data = connection.recv(1 << 20)
            except BlockingIOError:
                clock, cpu = time.monotonic(), cpu_seconds(child)
                start = start or (clock, cpu)
                if cpu - start[1] >= self._timeout:
                    return outcomes, ("timeout", f"over {self._timeout:g} s of CPU time")
                if clock - start[0] >= self._clock_timeout:
                    return outcomes, ("timeout", f"over {self._clock_timeout:g} s by the clock")
                continue
            except OSError:
                data = b""
            if not data:
                return outcomes, ("exited", "the process ended")
            if len(data) > 1 << 15:  # the child may be waiting for us to read
                poll.modify(connection, HUNG_UP | select.POLLIN)
            *lines, buffer = (buffer + data).split(b"\n")
            outcomes += [outcome(line) for line in lines[: count - len(outcomes)]]
            if len(buffer) > MAX_RESULT_BYTES:
                return outcomes, TOO_LONG
            if lines:
                start = None
        return outcomes, None

    def close(self) -> None:
        """End the server and wait for it."""
        self._control.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def cpu_seconds(process: int) -> float:
    """CPU seconds that a process and its threads have used; 0 if the system does not tell (macOS)."""
    try:
        return time.clock_gettime((~process << 3) | 2)
    except OSError:
        return 0.0


def outcome(line: bytes) -> Outcome:
    """The outcome that a line of a child stands for; the line may be forged."""
    if len(line) > MAX_RESULT_BYTES:
        return TOO_LONG
    if line[:1] == b"V":
        return ("value", line[1:])
    try:
        reason, message = json.loads(b"[" + line[1:] + b"]")
    except (ValueError, RecursionError):
        return NO_RESULT
    if type(reason) is str and reason in REASONS:
        return (reason, str(message)[:300])
    return NO_RESULT


class Pool:
    """Fork servers of several kinds, kept for the next answer. Several threads may use it at the same time.

    Args:
        level, timeout, memory_mb: See `Sandbox`.
        workers: Number of jobs that will run at the same time.

    Raises:
        SandboxUnavailable: This system has no sandbox.
        UserError: There is no level of that name.
    """

    def __init__(self, level: str, timeout: float, memory_mb: int, workers: int):
        check_level(level)
        self._settings = level, timeout, memory_mb
        self._most_idle = 6 * workers + 8
        self._idle: list[tuple[tuple, Sandbox]] = []  # the one that was used last at the end
        self._lock = threading.Lock()

    def run(self, role: str, seed: int, job: Job, imports: set[str]) -> list[Outcome]:
        """Run a job on a server that has loaded what its texts import; once more on a new one if that server ends.

        Args:
            role: "reference" or "answer". Servers of one role never run jobs of another.
            seed: PYTHONHASHSEED of the server.
            job: Code and tests.
            imports: Names of modules that the texts and the prelude import.

        Returns:
            One outcome per test (`Sandbox.run`).
        """
        kind = (role, seed, modules_for(imports, "\n".join(job.texts)))
        for sandbox in (self._idle_server(kind), None):
            sandbox = sandbox or Sandbox(*self._settings, modules=kind[2], hash_seed=seed)
            try:
                outcomes = sandbox.run(job)
            except (OSError, EOFError):
                sandbox.close()
                continue
            except BaseException:
                sandbox.close()
                raise
            self._keep(kind, sandbox)
            return outcomes
        return [("exited", "the sandbox ended while it ran this answer")] * job.count

    def _idle_server(self, kind: tuple) -> Sandbox | None:
        with self._lock:
            for place in reversed(range(len(self._idle))):
                if self._idle[place][0] == kind:
                    return self._idle.pop(place)[1]
        return None

    def _keep(self, kind: tuple, sandbox: Sandbox) -> None:
        """Keep the server for the next job. If there are too many, the one that was used longest ago ends."""
        with self._lock:
            self._idle.append((kind, sandbox))
            oldest = self._idle.pop(0)[1] if len(self._idle) > self._most_idle else None
        if oldest:
            oldest.close()

    def close(self) -> None:
        """End every server. No job may be running."""
        while self._idle:
            self._idle.pop()[1].close()


def check_level(level: str) -> None:
    """Check that this system has the level.

    Raises:
        UserError: There is no level of that name.
        SandboxUnavailable: The system refuses it.
    """
    if level not in LEVELS:
        raise UserError(
            f"--sandbox {level}: must be one of {', '.join(LEVELS)}. The others are gone: leave the flag out, or run "
            "answers as plain processes by --sandbox none."
        )
    sandbox = Sandbox(level, timeout=10.0, memory_mb=64)
    try:
        ((reason, _),) = sandbox.run(Job([""], pack_tests([compile("open('/')", "test", "eval")]), 1))
    finally:
        sandbox.close()
    if level != "none" and reason != "forbidden":
        raise SandboxUnavailable(f"The sandbox does not hold: seccomp is refused here. {REMEDY}")
