"""Run untrusted Python and get its results as data: the grading process's end of a warm process.

What holds, for code run through `Sandbox.run`:

strict (Linux with user namespaces): it sees an empty read-only root and one scratch folder of 16 MB that is
emptied after each answer; no network, no process of the host, no environment, no command line; it cannot start a
process or signal one; it ends with its answer. Time, CPU, memory, threads, open files and output are limited.
seccomp (Linux without namespaces): the same without any file: every call that takes a path is refused.
limits (macOS and others): only limits and an empty environment; files and network can be reached.

On every level the expected results are never in a process that runs an answer, values are compared here and not
there, and a child inherits nothing of an earlier answer. Not covered: side channels (timing, CPU load), faults of
the kernel itself, reading the installed Python's own modules that are already in memory.
"""

import json
import os
import select
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass, field

from sweet_rl.errors import UserError
from sweet_rl.grading.confine import LEVELS

# Loaded before the doors close. Small on purpose: every page of the warm process makes each fork slower.
STANDARD_MODULES = (
    "abc", "array", "ast", "base64", "binascii", "bisect", "calendar", "cmath", "collections", "collections.abc",
    "contextlib", "copy", "csv", "dataclasses", "datetime", "_strptime", "decimal", "difflib", "enum", "fractions",
    "functools", "hashlib", "heapq", "html", "inspect", "io", "ipaddress", "itertools", "json", "keyword", "locale",
    "math", "numbers", "operator", "os", "pathlib", "pprint", "queue", "random", "re", "secrets", "statistics",
    "string", "struct", "textwrap", "threading", "time", "timeit", "traceback", "types", "typing", "unicodedata",
    "urllib.parse", "uuid", "warnings", "weakref", "zoneinfo", "encodings.ascii", "encodings.latin_1",
    "encodings.idna", "encodings.utf_16", "encodings.cp1252", "encodings.hex_codec", "encodings.rot_13", "linecache",
)  # fmt: skip
# What these load only when they are used, when it is too late.
STANDARD_SUBMODULES = {
    "concurrent": ("concurrent.futures", "concurrent.futures.thread"),
    "email": ("email.message", "email.parser", "email.utils", "email.mime.text"),
    "multiprocessing": ("multiprocessing.dummy", "multiprocessing.pool"),
    "xml": ("xml.etree.ElementTree", "xml.dom.minidom", "xml.sax"),
}
THIRD_PARTY_MODULES = {
    "numpy": ("numpy", "numpy.linalg", "numpy.fft", "numpy.random", "numpy.ma", "numpy.polynomial"),
    "pandas": ("numpy", "pandas", "pandas.tseries.offsets"),
    "scipy": (
        "numpy",
        "scipy",
        "scipy.stats",
        "scipy.optimize",
        "scipy.special",
        "scipy.linalg",
        "scipy.signal",
    ),
    "dateutil": ("dateutil", "dateutil.parser", "dateutil.relativedelta", "dateutil.rrule", "dateutil.tz"),
    "pytz": ("pytz",),
    "sympy": ("sympy",),
    "networkx": ("networkx",),
}
NEVER_LOADED = {
    "antigravity",
    "this",
    "idlelib",
    "tkinter",
    "turtle",
    "turtledemo",
    "lib2to3",
    "ensurepip",
    "test",
}
MAX_ANSWER_BYTES = 8 << 20
REASONS = {"exception", "memory", "unserialisable", "forbidden", "syntax error"}


class SandboxUnavailable(UserError):
    """The asked level cannot be had on this system."""


@dataclass
class Job:
    """What a child runs: the first candidate text that is Python, then each test call in a fresh module.

    function: the name that calls must take from the answer; prelude: imports that only the calls see.
    """

    candidates: list[str]
    tests: list[str]
    function: str = ""
    prelude: str = ""
    modules: tuple[str, ...] = field(default=())


def modules_for(names: set[str]) -> tuple[str, ...]:
    """Modules beyond the standard set that a warm process must load for code that imports `names`."""
    extra = set()
    for name in names:
        top = name.split(".")[0]
        if top in THIRD_PARTY_MODULES:
            extra.update(THIRD_PARTY_MODULES[top])
        elif top in sys.stdlib_module_names and top not in NEVER_LOADED and name not in STANDARD_MODULES:
            if name not in sys.builtin_module_names:
                extra.update({top, name, *STANDARD_SUBMODULES.get(top, ())})
    return tuple(sorted(extra))


class Sandbox:
    """One warm process at one level with one set of modules. Not for use by two threads at once.

    level: strict | seccomp | limits. hash_seed: PYTHONHASHSEED of the process. timeout: CPU seconds a test may
    use; three times as long by the clock. Raises SandboxUnavailable if the level cannot be had.
    """

    def __init__(self, level: str, timeout: float, memory_mb: int, modules: tuple[str, ...] = (), hash_seed: int = 0):
        self.level, self.timeout, self.modules = level, timeout, modules
        self._control, theirs = socket.socketpair()
        with theirs:
            program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "warm.py")
            environment = {
                "PYTHONHASHSEED": str(hash_seed),
                "OPENBLAS_NUM_THREADS": "1",
                "OMP_NUM_THREADS": "1",
            }
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-s", "-B", program, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        settings = {
            "level": level,
            "memory_mb": memory_mb,
            "cpu_seconds": 60 + int(20 * timeout),
            "modules": [*STANDARD_MODULES, *modules],
            "path": [path for path in sys.path if path],
        }
        try:
            self._send_frame(self._control, settings)
            (length,) = struct.unpack("=I", self._receive(4))
            problem = json.loads(self._receive(length))["problem"]
        except (OSError, EOFError):
            problem = "the warm process ended while it started"
        if problem is not None:
            self.close()
            raise SandboxUnavailable(f"The sandbox level '{level}' cannot be had here: {problem}.")

    def run(self, job: Job, max_timeouts: int = 2) -> list[tuple]:
        """One outcome a test: ("value", tree) or (reason, message); values are untrusted trees.

        A child that dies or hangs at a test is ended and the tests after it get a new child; after
        `max_timeouts` hangs the rest is not run any more and counts as timeouts too.
        Reasons: those of `REASONS`, and timeout, exited (the process ended itself or crashed), output (too much).
        """
        outcomes: list[tuple] = []
        timeouts = 0
        while len(outcomes) < len(job.tests):
            if timeouts >= max_timeouts:
                outcomes.append(("timeout", f"not run: {timeouts} tests before it ran out of time"))
                continue
            fresh, ending = self._run_child(job, job.tests[len(outcomes) :])
            outcomes += fresh
            if fresh and fresh[0][0] == "syntax error":
                return [fresh[0]] * len(job.tests)
            if ending is not None and len(outcomes) < len(job.tests):
                outcomes.append(ending)
                timeouts += ending[0] == "timeout"
        return outcomes

    def _run_child(self, job: Job, tests: list[str]) -> tuple[list[tuple], tuple | None]:
        """Outcomes of the tests one child got through, and how the next one ended it (None: it did not)."""
        ours, theirs = socket.socketpair()
        born, ending = time.monotonic(), None
        outcomes: list[tuple] = []
        try:
            with ours:
                with theirs:
                    socket.send_fds(self._control, [b"J"], [theirs.fileno()])
                text = {
                    "candidates": job.candidates,
                    "tests": tests,
                    "function": job.function,
                    "prelude": job.prelude,
                }
                buffer, total = bytearray(), 0
                try:
                    ours.settimeout(10 + 3 * self.timeout)
                    self._send_frame(ours, text)
                except OSError:
                    ending = ("exited", "the process ended before it read its job")
                ours.setblocking(False)
                while ending is None and len(outcomes) < len(tests):
                    frame, ending, total = self._next_frame(ours, buffer, total, born)
                    if frame is not None:
                        outcomes.append(_outcome(frame))
        finally:
            status = self._reap()
        if ending == "ended":
            ending = _death(status)
        return outcomes, ending

    def _next_frame(self, connection: socket.socket, buffer: bytearray, total: int, born: float):
        """(frame or None, ending or None, bytes read so far) of a child forked at clock time `born`."""
        start = time.monotonic()
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        while True:
            if len(buffer) >= 4:
                (length,) = struct.unpack_from("=I", buffer)
                if length > MAX_ANSWER_BYTES or total > MAX_ANSWER_BYTES:
                    return None, ("output", f"more than {MAX_ANSWER_BYTES >> 20} MB of results"), total
                if len(buffer) >= 4 + length:
                    frame = bytes(buffer[4 : 4 + length])
                    del buffer[: 4 + length]
                    return frame, None, total
            elapsed = time.monotonic() - start
            if elapsed >= 3 * self.timeout:
                return None, ("timeout", f"over {3 * self.timeout:g} s by the clock"), total
            if elapsed >= self.timeout:
                # The tests before this one cannot have used more CPU time than the clock went on meanwhile.
                if self._cpu_seconds() - (start - born) >= self.timeout:
                    return None, ("timeout", f"over {self.timeout:g} s of CPU time"), total
            wait = min(self.timeout - elapsed if elapsed < self.timeout else 0.05, 3 * self.timeout - elapsed)
            if poll.poll(max(1, int(wait * 1000) + 1)):
                try:
                    data = connection.recv(1 << 16)
                except BlockingIOError:
                    continue
                except OSError:
                    data = b""
                if not data:
                    return None, "ended", total
                buffer += data
                total += len(data)

    def _cpu_seconds(self) -> float:
        self._control.sendall(b"T")
        return struct.unpack("=d", self._receive(8))[0]

    def _reap(self) -> int:
        self._control.sendall(b"K")
        return struct.unpack("=i", self._receive(4))[0]

    def _receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self._control.recv(count - len(data))
            if not piece:
                raise EOFError("the warm process of the sandbox has ended")
            data += piece
        return data

    @staticmethod
    def _send_frame(connection: socket.socket, value) -> None:
        data = json.dumps(value).encode()
        connection.sendall(struct.pack("=I", len(data)) + data)

    def close(self) -> None:
        """End the warm process and wait for it."""
        self._control.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _outcome(frame: bytes) -> tuple:
    """A child's frame, which may be forged, as an outcome."""
    try:
        reason, content = json.loads(frame)
    except (ValueError, TypeError, RecursionError):
        return ("unserialisable", "the process wrote something that is no result")
    if reason == "value":
        return ("value", content)
    if reason in REASONS and isinstance(content, str):
        return (reason, content[:300])
    return ("unserialisable", "the process wrote something that is no result")


def _death(status: int) -> tuple:
    if status == -24:
        return ("timeout", "over its CPU time")
    if status < 0:
        return ("exited", f"the process was ended by signal {-status}")
    return ("exited", f"the process ended itself with status {status}")


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
