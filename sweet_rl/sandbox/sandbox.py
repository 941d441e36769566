"""The grading process's end of a warm process: hand one answer to one child, read its results, count its time.

`sweet_rl/sandbox/__init__.py` says what is promised.
"""

import marshal
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
import zoneinfo
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

from sweet_rl.runs.errors import UserError
from sweet_rl.sandbox.confine import LEVELS

MAX_RESULT_BYTES = 8 << 20
# One thread for numpy, none for the Arrow that pandas loads: a process with threads cannot enter a namespace.
# MALLOC_ARENA_MAX: a thread would reserve 64 MB of the address space, which is limited, for its own heap.
# LD_BIND_NOW: symbols are bound once at the start, not again by each child.
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "LD_BIND_NOW": "1",
    "MALLOC_ARENA_MAX": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
LIBRARIES = ("site-packages", "dist-packages")  # folders of installed packages, which an answer may read
REASONS = {"exception", "memory", "unserialisable", "forbidden", "syntax error"}
# Polling interval for results, in seconds. The parent is notified only when the child exits.
POLL_SECONDS = 0.02
HUNG_UP = getattr(select, "POLLRDHUP", select.POLLIN)
MAX_TIMEOUTS = 2  # tests of an answer that may run out of time before the others are not run any more
PATIENCE = 10  # wall time of a test, in clock limits, after which waiting for a CPU is a failure of the machine
MAX_VOLUNTARY_SWITCHES = 200  # of a thread that computes; answers that sleep and lock have more
CONTROL_SECONDS = 60  # in which the warm process replies, also on an overloaded machine
START_SECONDS = 300  # in which it loads its modules and confines itself
NO_RESULT = ("unserialisable", "the process wrote something that is no result")

Outcome = tuple[str, "bytes | str"]


class SandboxUnavailable(UserError):
    """The requested level is not available on this system."""


@dataclass(frozen=True)
class Job:
    """The tests of one answer.

    Attributes:
        texts: texts that may be the code, best first; the first that is Python and lacks no name is run.
        tests: what `pack_tests` makes of the test calls.
        count: how many outcomes there are: one per test.
        own: the names that the calls must take from the answer, not from the prelude.
        scope: "module", or "function": what the code defines is local, as in the released grader.
        longest: bytes that the text of a value may have; a longer one is a wrong value. None: no such limit.
    """

    texts: list[str]
    tests: bytes
    count: int
    own: Collection[str] = ()
    scope: str = "module"
    longest: int | None = None


def pack_tests(calls: Sequence[CodeType], prelude: CodeType | None = None) -> bytes:
    """The `tests` of jobs, made once per task.

    Args:
        calls: one expression per test, compiled.
        prelude: imports and constants that only the calls see, compiled.
    """
    return marshal.dumps(([*calls], prelude))


class Sandbox:
    """One warm process. Not for use by two threads at the same time.

    Args:
        level: strict, seccomp or limits.
        timeout: CPU seconds per test. The clock limit is three times that and at least one second.
        memory_mb: memory that an answer may use beyond the interpreter's own.
        modules: what is imported before the process is confined.
        hash_seed: its PYTHONHASHSEED.

    Raises:
        SandboxUnavailable: the level is not available here.
    """

    def __init__(self, level: str, timeout: float, memory_mb: int, modules: tuple[str, ...] = (), hash_seed: int = 0):
        self.level, self.timeout, self.modules = level, timeout, modules
        self._clock_timeout = max(3 * timeout, 1.0)
        self._clearing_up = False  # whether the warm process has not said yet that it is done with the last child
        self._control, theirs = socket.socketpair()
        self._control.settimeout(START_SECONDS)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-s", "-B", str(Path(__file__).with_name("warm.py")), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={"PYTHONHASHSEED": str(hash_seed), **ENVIRONMENT},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        path = [os.path.abspath(folder) for folder in sys.path if folder]
        settings = {
            "level": level,
            "memory_mb": memory_mb,
            "modules": list(modules),
            "path": path,
            "libraries": [folder for folder in path if Path(folder).name in LIBRARIES],
            "time_zones": [*zoneinfo.TZPATH],
        }
        try:
            send_frame(self._control, marshal.dumps(settings))
            problem = self._receive(int.from_bytes(self._receive(4), "little")).decode()
        except TimeoutError:
            self._process.kill()
            problem = f"the warm process did not start within {START_SECONDS} s"
        except (OSError, EOFError):
            problem = "the warm process ended while it started"
        self._control.settimeout(CONTROL_SECONDS)
        if problem:
            self.close()
            raise SandboxUnavailable(f"The sandbox level '{level}' is not available: {problem}.")

    def run(self, job: Job) -> list[Outcome]:
        """Run all tests of one answer in children that run nothing else.

        Usually there is one child. A test that hangs or dies ends its child, and the tests after it get a new one.
        If a child ends in a later test than its first, that test is tried again as the first of a new child.

        Returns:
            One outcome per test: ("value", text), where text is untrusted (`values.decode`), or (reason, message).
            Reasons: those of `REASONS`, timeout, exited (the process ended itself or crashed), output (too much),
            wrong value (longer than `job.longest`), machine (not the answer's fault; the rest is not run).

        Raises:
            OSError, EOFError: the warm process has ended.
        """
        outcomes: list[Outcome] = []
        timeouts = 0
        while len(outcomes) < job.count:
            if timeouts >= MAX_TIMEOUTS:
                outcomes.append(("timeout", f"not run: {timeouts} tests before it ran out of time"))
                continue
            fresh, ending = self._run_child(job, len(outcomes))
            outcomes += fresh
            if ending is None or ending[0] == "exited" and fresh:
                continue
            missing = job.count - len(outcomes) if ending[0] == "machine" else 1
            outcomes += [ending] * missing
            timeouts += ending[0] == "timeout"
        return outcomes

    def _run_child(self, job: Job, first: int) -> tuple[list[Outcome], Outcome | None]:
        """Outcomes of the tests from `first` on that one child finished, and how the next one ended the child (None:
        all are finished)."""
        outcomes: list[Outcome] = []
        ending: Outcome | str | None = None  # "ended": the child did
        expected = job.count - first
        message = (job.texts, job.tests, [*job.own], job.scope, first)
        with self._fork() as connection:
            try:
                connection.settimeout(CONTROL_SECONDS)
                send_frame(connection, marshal.dumps(message))
            except OSError:
                ending = ("exited", "the process ended before it read its job")
            connection.setblocking(False)
            results = _Results(connection, expected, job.longest)
            while ending is None and len(outcomes) < expected:
                ending = self._next(results, outcomes)
        self._end_child()
        return outcomes, _death(self._cleared_up()) if isinstance(ending, str) else ending

    def _end_child(self) -> None:
        self._control.sendall(b"K")
        self._clearing_up = True

    def _cleared_up(self) -> str:
        """Wait until the warm process has cleared up after its last child; that one's wait status."""
        status = self._receive(24).decode().strip() if self._clearing_up else ""
        self._clearing_up = False
        return status

    def _fork(self) -> socket.socket:
        self._cleared_up()
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                socket.send_fds(self._control, [b"J"], [theirs.fileno()])
        except BaseException:
            ours.close()
            raise
        return ours

    def _next(self, results: "_Results", outcomes: list) -> Outcome | str | None:
        """Add at least one outcome, or return how the test ended: an outcome, or "ended" if the child did.

        Time is counted from the first look that finds no result. The time in which a thread of the child was ready
        to run and waited for a CPU is not the answer's: it is taken off the time by the clock. Sleeping and blocking
        are not taken off, and CPU time counts for all threads together, so an answer cannot wait on purpose.
        """
        start = None
        while True:
            known = len(outcomes)
            ending = results.read(outcomes, POLL_SECONDS)
            if ending is not None or len(outcomes) > known:
                return ending
            now = time.monotonic(), self._cpu_seconds(), self._seconds_without_cpu()
            start = start or now
            elapsed, cpu, waited = (after - before for before, after in zip(start, now, strict=True))
            if cpu >= self.timeout:
                return ("timeout", f"over {self.timeout:g} s of CPU time")
            if elapsed - max(0.0, waited) >= self._clock_timeout:
                limit = f"the limit by the clock for {self.timeout:g} s of CPU time"
                return ("timeout", f"over {self._clock_timeout:g} s, {limit}")
            if elapsed >= PATIENCE * self._clock_timeout:
                spent = f"{cpu:.1f} of {self.timeout:g} s of CPU time in {elapsed:.1f} s"
                return ("machine", f"ran out of wall time: {spent}, of which it waited {waited:.1f} s for a CPU")

    def _cpu_seconds(self) -> float:
        self._control.sendall(b"T")
        return float(self._receive(24))

    def _seconds_without_cpu(self) -> float:
        """Seconds that a thread of the child was ready to run but had no CPU, the longest of all; 0 if unknown.

        A thread that often gave up its CPU by itself is left out: on a loaded machine it waits after each short sleep.
        So is every thread at the level limits, where an answer can lower its priority or start other processes.
        """
        if self.level == "limits":
            return 0.0
        pid = str(self._process.pid)
        try:
            for _ in range(2 if self.level == "strict" else 1):  # at strict, pid 1 of the namespace is between
                pid = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
            waits = [0]
            for thread in Path(f"/proc/{pid}/task").iterdir():
                gave_up = re.search(r"^voluntary_ctxt_switches:\s*(\d+)", (thread / "status").read_text(), re.MULTILINE)
                if gave_up is not None and int(gave_up[1]) < MAX_VOLUNTARY_SWITCHES:
                    waits.append(int((thread / "schedstat").read_text().split()[1]))
            return max(waits) / 1e9
        except (OSError, LookupError, ValueError, TypeError):
            return 0.0

    def _receive(self, count: int) -> bytes:
        if self.level == "limits":  # there an answer can stop its warm process
            self._process.send_signal(signal.SIGCONT)
        data = b""
        while len(data) < count:
            piece = self._control.recv(count - len(data))
            if not piece:
                raise EOFError("the warm process of the sandbox has ended")
            data += piece
        return data

    def ready(self) -> bool:
        """Whether the warm process lives and has cleared up after its last answer."""
        try:
            self._cleared_up()
        except (OSError, EOFError):
            return False
        return self._process.poll() is None

    def close(self) -> None:
        """End the warm process and wait for it."""
        self._control.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _Results:
    """Reads what a child sends as outcomes; bounded, whatever the child sends."""

    def __init__(self, connection: socket.socket, expected: int, longest: int | None):
        self._connection, self._expected, self._longest = connection, expected, longest
        self._buffer, self._flood = bytearray(), False
        self._poll = select.poll()
        self._poll.register(connection, HUNG_UP)

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
            if len(data) > 1 << 15 and not self._flood:  # the child may be waiting for us to read
                self._flood = True
                self._poll.modify(self._connection, HUNG_UP | select.POLLIN)
            self._buffer += data
            self._take_frames(outcomes)
            if len(self._buffer) > MAX_RESULT_BYTES:
                return ("output", f"a result of more than {MAX_RESULT_BYTES >> 20} MB")
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


def _outcome(frame: bytes) -> Outcome:
    """The outcome that a child's frame stands for; the frame may be forged."""
    if frame[:1] == b"V":
        return ("value", frame[1:])
    if frame[:1] == b"E":
        reason, _, message = frame[1:].decode("utf-8", "replace").partition("\n")
        if reason in REASONS:
            return (reason, message[:300])
    return NO_RESULT


def _death(status: str) -> Outcome:
    """How a child ended, from its wait status."""
    try:
        code = os.waitstatus_to_exitcode(int(status))
    except ValueError:
        return ("exited", "the process ended")
    if code < 0:
        return ("exited", f"the process was ended by signal {-code}")
    return ("exited", f"the process ended itself with status {code}")


def available_level(wanted: str) -> tuple[str, str]:
    """The level to use, and why no stronger one.

    Args:
        wanted: auto (the strongest level that this system offers), strict, seccomp or limits.

    Raises:
        SandboxUnavailable: a named level is not available here.
        UserError: there is no level of that name.
    """
    if wanted not in ("auto", *LEVELS):
        raise UserError(f"--sandbox {wanted}: must be one of auto, {', '.join(LEVELS)}.")
    problems: list[str] = []
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
