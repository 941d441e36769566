"""Run untrusted Python and get its results as data: the grading process's end of a warm process.

What holds, for code run through `Sandbox.run`:

strict (Linux with user namespaces): it sees an empty read-only root and one scratch folder of 16 MB that is
emptied after each process; no network, no process of the host, no environment, no command line; it cannot start a
process or signal one; it ends with its test. Each test has a process of its own, but for code whose bytecode proves
that it can leave nothing behind (`plain.py`): the simplest shares a process with up to `SHARED_ANSWERS` - 1 answers of
that kind, and what is slow there, or fails otherwise than by a value or an exception, is run again by itself.
Time, CPU, memory, threads, open files and output are limited.
seccomp (Linux without namespaces): the same without any file: every call that takes a path is refused.
limits (macOS and others): only limits and an empty environment; files and network can be reached, processes can be
started, and one that leaves its session can outlive its test. Address-space limits are unreliable on macOS.

On every level the expected results are never in a process that runs an answer, values are compared here and not
there, and a child inherits nothing of an earlier answer. Not covered: side channels (timing, CPU load, addresses of
objects), faults of the kernel itself, reading the installed Python's own modules that are already in memory.
"""

import functools
import marshal
import os
import select
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from sweet_rl.errors import UserError
from sweet_rl.sandbox.confine import LEVELS

MAX_ANSWER_BYTES = 8 << 20
# One thread for numpy, none for the Arrow that pandas loads: a process with threads cannot enter a namespace. Symbols
# bound at the start, and not by each child anew.
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "LD_BIND_NOW": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}  # fmt: skip
REASONS = {"exception", "memory", "unserialisable", "forbidden"}
# How long the results may lie unread. Nobody is woken for a result, only for the end of the child that sends them.
LOOK_SECONDS = 0.02
HUNG_UP = getattr(select, "POLLRDHUP", select.POLLIN)
# Plain code shares a process with others for as long as each of them is done quickly, with a value or an exception.
SHARED_ANSWERS, SHARED_SECONDS = 16, 0.25
CONTROL_SECONDS = 30  # in which a warm process that is not disturbed has long replied
NO_RESULT = ("unserialisable", "the process wrote something that is no result")


BOOTSTRAP = (
    "import marshal, sys\nprograms = marshal.load(sys.stdin.buffer)\n"
    "exec(programs['warm'], {'__name__': '__main__', 'PROGRAMS': programs})"
)


@functools.cache
def programs() -> bytes:
    """What a warm process is made of, compiled: `warm.py`, its neighbours, and the answer that it practises on."""
    folder = Path(__file__).parent
    compiled = {
        name: compile((folder / f"{name}.py").read_text(encoding="utf-8"), f"{name}.py", "exec", dont_inherit=True)
        for name in ("warm", "confine", "encode", "plain", "calls", "practice")
    }
    return marshal.dumps({**compiled, "practice_call": compile("f(3, b=4)", "test", "eval", dont_inherit=True)})


class SandboxUnavailable(UserError):
    """The asked level cannot be had on this system."""


@dataclass(frozen=True)
class Job:
    """What a child runs: compiled code (`compiler.py`), and each of the compiled calls in a fresh module of it.

    code, calls, prelude: bytes of a code object, a list of them, and a code object (or None) of imports that only the
    calls see; function: the name that they must take from the answer. process: which one its calls may have, as
    `plain.process_for` says.
    longest: bytes that a value's text may have (None: as many as are read); a longer one is a wrong value, not kept.
    scope: module, or "function" as `paper.py` wants it: what the code defines is local to where it is executed.
    """

    code: bytes
    calls: bytes
    tests: int
    function: str = ""
    prelude: bytes = marshal.dumps(None)
    process: str = "test"
    scope: str = "module"
    longest: int | None = None


class Sandbox:
    """One warm process at one level with one set of modules. Not for use by two threads at once.

    level: strict | seccomp | limits. hash_seed: PYTHONHASHSEED of the process. timeout: CPU seconds a test may
    use; three times as long by the clock, and at least a second. compiles: whether it is to compile
    (`open_compiler`), not to run.
    Raises SandboxUnavailable if the level cannot be had.
    """

    def __init__(
        self,
        level: str,
        timeout: float,
        memory_mb: int,
        modules: tuple[str, ...] = (),
        hash_seed: int = 0,
        compiles: bool = False,
    ):
        self.level, self.timeout, self.modules = level, timeout, modules
        self._clock_timeout = max(3 * timeout, 1.0)
        self._shared: socket.socket | None = None  # the connection to a child that plain code shares
        self._shared_answers = 0
        self._control, theirs = socket.socketpair()
        with theirs:
            environment = {"PYTHONHASHSEED": str(hash_seed), **ENVIRONMENT}
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-s", "-B", "-c", BOOTSTRAP, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=environment,
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        settings = {
            "level": level,
            "memory_mb": memory_mb,
            "modules": list(modules),
            "compiles": compiles,
            "path": [path for path in sys.path if path],
        }
        try:
            with self._process.stdin as standard_input:
                standard_input.write(programs())
            send_frame(self._control, marshal.dumps(settings))
            problem = self._receive(int.from_bytes(self._receive(4), "little")).decode()
        except (OSError, EOFError):
            problem = "the warm process ended while it started"
        self._control.settimeout(CONTROL_SECONDS)
        if problem:
            self.close()
            raise SandboxUnavailable(f"The sandbox level '{level}' cannot be had here: {problem}.")

    def run(self, job: Job, max_timeouts: int = 2) -> list[tuple]:
        """One outcome a test: ("value", text) or (reason, message); texts are untrusted (`values.decode`).

        A child that dies or hangs at a test is ended and the tests after it get a new child; after
        `max_timeouts` hangs the rest is not run any more and counts as timeouts too.
        Reasons: those of `REASONS`, and timeout, exited (the process ended itself or crashed), output (too much).
        """
        if job.process == "shared" and job.tests and (shared := self._run_shared(job)) is not None:
            return shared
        outcomes: list[tuple] = []
        timeouts = 0
        while len(outcomes) < job.tests:
            if timeouts >= max_timeouts:
                outcomes.append(("timeout", f"not run: {timeouts} tests before it ran out of time"))
                continue
            first = len(outcomes)
            chosen = range(first, first + 1 if job.process == "test" else job.tests)
            fresh, ending = self._run_child(job, chosen)
            outcomes += fresh
            if ending is not None and len(fresh) < len(chosen):
                outcomes.append(ending)
                timeouts += ending[0] == "timeout"
        return outcomes

    def open_compiler(self) -> socket.socket:
        """A connection to a child that compiles (see `warm.compile_for_others`) until it is closed."""
        return self._fork(b"C")

    def reap(self) -> None:
        """End the child, however far it is; the next one is not started before it is gone."""
        self._control.sendall(b"R")

    def _run_shared(self, job: Job) -> list[tuple] | None:
        """The outcomes of plain code in a process that ran others before; None: it needs one of its own."""
        if self._shared is not None and (self._shared_answers >= SHARED_ANSWERS or self._has_spoken(self._shared)):
            self._end_shared()
        if self._shared is None:
            self._shared, self._shared_answers = self._fork(b"J"), 0
        connection = self._shared
        self._shared_answers += 1
        outcomes: list[tuple] = []
        limit = min(SHARED_SECONDS, self.timeout)
        try:
            connection.settimeout(limit)
            send_frame(connection, self._message(job, range(job.tests), stays=True))
        except OSError:
            self._end_shared()
            return None
        connection.setblocking(False)
        reader = _Results(connection, job.tests, job.longest, HUNG_UP | select.POLLIN)
        deadline = time.monotonic() + limit
        while len(outcomes) < job.tests:
            left = deadline - time.monotonic()
            if left <= 0 or reader.read(outcomes, left) is not None:
                break
        if len(outcomes) < job.tests or any(reason not in ("value", "exception") for reason, _ in outcomes):
            self._end_shared()
            return None
        return outcomes

    @staticmethod
    def _has_spoken(connection: socket.socket) -> bool:
        """Whether a child that waits for a job sent anything, which plain code cannot, or has ended."""
        try:
            connection.recv(1)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    def _end_shared(self) -> None:
        self._shared.close()
        self._shared = None
        self.reap()

    @staticmethod
    def _message(job: Job, chosen: range, stays: bool) -> bytes:
        return marshal.dumps((job.code, job.calls, job.prelude, job.function, job.scope, list(chosen), stays))

    def _fork(self, kind: bytes) -> socket.socket:
        if self._shared is not None:
            self._end_shared()
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                socket.send_fds(self._control, [kind], [theirs.fileno()])
        except BaseException:
            ours.close()
            raise
        return ours

    def _run_child(self, job: Job, chosen: range) -> tuple[list[tuple], tuple | None]:
        """Outcomes of the tests one child got through, and how the next one ended it (None: it did not)."""
        born = time.monotonic()
        outcomes: list[tuple] = []
        ending = None
        with self._fork(b"J") as connection:
            try:
                connection.settimeout(10 + self._clock_timeout)
                send_frame(connection, self._message(job, chosen, stays=False))
            except OSError:
                ending = ("exited", "the process ended before it read its job")
            connection.setblocking(False)
            reader = _Results(connection, len(chosen), job.longest)
            while ending is None and len(outcomes) < len(chosen):
                ending = self._next(reader, outcomes, born)
        if ending == "ended":
            self._control.sendall(b"K")
            ending = _death(self._receive(24).decode().strip())
        else:
            self.reap()
        return outcomes, ending

    def _next(self, reader: "_Results", outcomes: list, born: float):
        """Add at least one outcome of a child forked at clock time `born`, or say how it ended."""
        start = time.monotonic()
        while True:
            elapsed = time.monotonic() - start
            if elapsed >= self.timeout:
                if elapsed >= self._clock_timeout:
                    return ("timeout", f"over {self._clock_timeout:g} s by the clock")
                # The tests before this one cannot have used more CPU time than the clock went on meanwhile.
                if self._cpu_seconds() - (start - born) >= self.timeout:
                    return ("timeout", f"over {self.timeout:g} s of CPU time")
            known = len(outcomes)
            ending = reader.read(outcomes, LOOK_SECONDS)
            if ending is not None or len(outcomes) > known:
                return ending

    def _cpu_seconds(self) -> float:
        self._control.sendall(b"T")
        return float(self._receive(24))

    def _receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self._control.recv(count - len(data))
            if not piece:
                raise EOFError("the warm process of the sandbox has ended")
            data += piece
        return data

    def close(self) -> None:
        """End the warm process and wait for it."""
        if self._shared is not None:
            self._shared.close()
        self._control.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _Results:
    """What a child has sent so far, as outcomes; bounded, whatever it sends."""

    def __init__(self, connection: socket.socket, expected: int, longest: int | None, events: int = HUNG_UP):
        self._connection, self._expected, self._longest = connection, expected, longest
        self._buffer, self._total, self._flood = bytearray(), 0, False
        self._poll = select.poll()
        self._poll.register(connection, events)

    def read(self, outcomes: list, seconds: float):
        """Add the outcomes that arrive within `seconds`; "ended" at the end, ("output", ...) for too much."""
        self._poll.poll(int(seconds * 1000))
        while True:
            try:
                data = self._connection.recv(1 << 18)
            except BlockingIOError:
                return None
            except OSError:
                data = b""
            if not data:
                return "ended"
            if len(data) > 1 << 15 and not self._flood:  # it may be waiting for us to read
                self._flood = True
                self._poll.modify(self._connection, HUNG_UP | select.POLLIN)
            self._total += len(data)
            self._buffer += data
            if self._total > MAX_ANSWER_BYTES:
                return ("output", f"more than {MAX_ANSWER_BYTES >> 20} MB of results")
            self._take_frames(outcomes)
            if len(outcomes) >= self._expected:
                return None

    def _take_frames(self, outcomes: list) -> None:
        buffer, start = self._buffer, 0
        while len(buffer) - start >= 4 and len(outcomes) < self._expected:
            end = start + 4 + int.from_bytes(buffer[start : start + 4], "little")
            if end > len(buffer):
                break
            if self._longest is not None and end - start - 5 > self._longest:
                outcomes.append(("wrong value", f"a value of {end - start - 5} bytes, far more than expected"))
            else:
                outcomes.append(_outcome(bytes(buffer[start + 4 : end])))
            start = end
        del buffer[:start]


def send_frame(connection: socket.socket, data: bytes) -> None:
    connection.sendall(len(data).to_bytes(4, "little") + data)


def _outcome(frame: bytes) -> tuple:
    """A child's frame, which may be forged, as an outcome."""
    if frame[:1] == b"V":
        return ("value", frame[1:])
    if frame[:1] == b"E":
        reason, _, message = frame[1:].decode("utf-8", "replace").partition("\n")
        if reason in REASONS:
            return (reason, message[:300])
    return NO_RESULT


def _death(status: str) -> tuple:
    """How a child ended, from its wait status."""
    try:
        code = os.waitstatus_to_exitcode(int(status))
    except ValueError:
        return ("exited", "the process ended")
    if code == -24:
        return ("timeout", "over its CPU time")
    if code < 0:
        return ("exited", f"the process was ended by signal {-code}")
    return ("exited", f"the process ended itself with status {code}")


def available_level(wanted: str) -> tuple[str, str]:
    """(level, why no stronger one) for `--sandbox` auto | strict | seccomp | limits.

    auto takes the strongest level that this system offers. Raises SandboxUnavailable for a named level that
    cannot be had, UserError for an unknown name.
    """
    if wanted not in ("auto", *LEVELS):
        raise UserError(f"--sandbox {wanted}: must be one of auto, {', '.join(LEVELS)}.")
    problems = []
    for level in LEVELS if wanted == "auto" else (wanted,):
        try:
            Sandbox(level, timeout=1.0, memory_mb=64).close()
            return level, " ".join(problems)
        except SandboxUnavailable as error:
            problems.append(str(error))
    raise SandboxUnavailable(
        " ".join(problems)
        + " Allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1 or"
        + " kernel.apparmor_restrict_unprivileged_userns=0, docker run --security-opt seccomp=unconfined),"
        + " or choose --sandbox auto."
    )
