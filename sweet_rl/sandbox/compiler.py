"""Compile answers in a sandboxed process of their own, many at a time.

The grading process never parses an answer: Python's parser has had faults, and some texts take it for ever. A fresh
child of the warm process would parse slowly, because every page that it writes is copied first. So one process,
confined as those that run answers, compiles for all of them and runs nothing; what it returns are bytes that only
the children that run answers ever load.
"""

import marshal
import threading
from dataclasses import dataclass

from sweet_rl.sandbox.sandbox import Sandbox, send_frame

MODULES = ("dis", "math", "cmath", "re", "itertools", "heapq", "bisect", "datetime", "collections", "unicodedata")
PROCESSES = {b"S": "shared", b"A": "answer", b"T": "test"}
MAX_REPLY_BYTES = 64 << 20


@dataclass(frozen=True)
class Compiled:
    """Bytes of a code object and the process that its tests may have (`plain.py`); or `failure` = (reason, message)."""

    code: bytes = b""
    process: str = "test"
    failure: tuple[str, str] | None = None


class Compiler:
    """The compiling process of a grader; may be used by several threads. Raises SandboxUnavailable."""

    def __init__(self, level: str, timeout: float, memory_mb: int):
        self._settings = (level, timeout, memory_mb)
        self._seconds = 3 * timeout + 1  # by the clock: for texts that take the parser for ever
        self._lock = threading.Lock()
        self._sandbox: Sandbox | None = None
        self._connection = None

    def modules(self, texts_of: list[list[str]]) -> list[Compiled]:
        """Of each list of texts the first that is Python, compiled as a module."""
        return self._compile([("exec", texts) for texts in texts_of])

    def calls(self, texts: list[str], whole: bool = False) -> Compiled:
        """All the test calls as expressions: bytes of a list of code objects. Not whole: of a call that compares its
        value with a literal, what gives the value."""
        return self._compile([("eval whole" if whole else "eval", texts)])[0]

    def _compile(self, requests: list[tuple[str, list[str]]]) -> list[Compiled]:
        with self._lock:
            return self._ask(requests)

    def _ask(self, requests: list, again: bool = True) -> list[Compiled]:
        """A process that ended may have been ended by others: one text is tried once more, in another process."""
        try:
            return self._round_trip(requests)
        except (OSError, EOFError, ValueError) as error:
            timed_out = isinstance(error, TimeoutError)
            self._end()
            if not timed_out and self._sandbox is not None:
                self._sandbox.close()
                self._sandbox = None
            if len(requests) > 1:
                return [compiled for request in requests for compiled in self._ask([request])]
            if again and not timed_out:
                return self._ask(requests, again=False)
            kind = "timeout" if timed_out else "exited"
            return [Compiled(failure=(kind, "while its text was compiled"))]

    def _round_trip(self, requests: list) -> list[Compiled]:
        if self._connection is None:
            level, timeout, memory_mb = self._settings
            self._sandbox = self._sandbox or Sandbox(level, timeout, 2 * memory_mb, MODULES, compiles=True)
            self._connection = self._sandbox.open_compiler()
            self._connection.settimeout(self._seconds)
        send_frame(self._connection, marshal.dumps(requests))
        reply = self._read(int.from_bytes(self._read(4), "little"))
        compiled, start = [], 0
        for _ in requests:
            end = start + 5 + int.from_bytes(reply[start + 1 : start + 5], "little")
            if end > len(reply):
                raise EOFError
            compiled.append(_compiled(reply[start : start + 1], reply[start + 5 : end]))
            start = end
        return compiled

    def _read(self, count: int) -> bytes:
        if count > MAX_REPLY_BYTES:
            raise EOFError
        data = b""
        while len(data) < count:
            piece = self._connection.recv(count - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def _end(self) -> None:
        """End the compiling child; what is asked next gets a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._sandbox is not None:
            try:
                self._sandbox.reap()
            except OSError:
                self._sandbox.close()
                self._sandbox = None

    def close(self) -> None:
        with self._lock:
            self._end()
            if self._sandbox is not None:
                self._sandbox.close()
                self._sandbox = None


def _compiled(tag: bytes, content: bytes) -> Compiled:
    if tag in PROCESSES:
        return Compiled(content, PROCESSES[tag])
    return Compiled(failure=("syntax error", content.decode("utf-8", "replace")))
