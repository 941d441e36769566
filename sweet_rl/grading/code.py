"""Grade Python answers: the reference and the answer run apart, their values are compared here.

The reference's results come from warm processes that no answer ever runs in, so that nothing an answer can read
has held them; `sandbox.py` says what holds on which system.
"""

import hashlib
import json
import os
import re
import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field

from sweet_rl.errors import UserError
from sweet_rl.grading.extract import (
    call_prelude,
    code_candidates,
    function_name,
    imported_names,
)
from sweet_rl.grading.sandbox import Job, Sandbox, available_level, modules_for
from sweet_rl.grading.values import preview, same

__all__ = ["CodeGrader", "Grade", "TestResult"]

# Code with one of these words may give another result each time: such a reference is run more often.
CHANCE = re.compile(
    r"\b(random|rand\w*|shuffle|choice|sample|uuid\w*|secrets|time|now|today|perf_counter|hash|id|set|frozenset|getpid"
    r"|urandom|object|globals|locals)\b|\{\s*['\"][^:}]*\}|\{[^:{}]*\bfor\b"
)
CACHED_REFERENCES = 20_000


@dataclass
class TestResult:
    """One hidden test: its name, whether it passed, and else why not (`reason`) with what was seen (`message`)."""

    name: str
    passed: bool
    reason: str | None = None
    message: str | None = None

    __test__ = False  # not a test class, whatever pytest thinks of its name


@dataclass
class Grade:
    """What an answer is worth.

    reward: the share of tests passed, so 1.0 is success; None where the task is ungradable.
    failure: None on success, else the first failed test's reason: wrong value, exception, timeout, memory,
    forbidden, unserialisable, exited, output, syntax error; or 'no answer', 'no code'.
    ungradable: why the reference cannot be graded against; None for every ordinary task.
    """

    reward: float | None
    tests: list[TestResult] = field(default_factory=list)
    failure: str | None = None
    ungradable: str | None = None

    @property
    def tests_passed(self) -> float | None:
        return self.reward

    @property
    def success(self) -> bool | None:
        return None if self.reward is None else self.reward == 1.0

    def to_dict(self) -> dict:
        return asdict(self)


@dataclass
class _Reference:
    results: list | None
    ungradable: str | None
    function: str
    prelude: str


class CodeGrader:
    """Grades answers against reference solutions; a context manager that owns the sandboxes.

    timeout: CPU seconds a test may use, three times as long by the clock; memory_mb: memory an answer may use
    beyond the interpreter's; workers: answers graded at once (None: one a core); sandbox: auto | strict |
    seccomp | limits. `level` says which level is active, `weaker_because` why not a stronger one.
    Raises SandboxUnavailable when the asked level cannot be had.
    """

    def __init__(self, timeout: float = 1.0, memory_mb: int = 256, workers: int | None = None, sandbox: str = "auto"):
        if timeout <= 0 or memory_mb <= 0 or (workers is not None and workers <= 0):
            raise UserError(
                f"timeout ({timeout}), memory_mb ({memory_mb}) and workers ({workers}) must be more than 0."
            )
        self.timeout, self.memory_mb = timeout, memory_mb
        self.workers = workers or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else [0])
        self.level, self.weaker_because = available_level(sandbox)
        self._idle: OrderedDict[tuple, list[Sandbox]] = OrderedDict()
        self._references: OrderedDict[str, Future] = OrderedDict()
        self._lock = threading.Lock()
        self._closed = False

    def describe(self) -> str:
        """One line for people: the active level, and why it is not a stronger one."""
        note = f" ({self.weaker_because})" if self.weaker_because else ""
        return f"sandbox level: {self.level}{note}"

    # ------------------------------------------------------------------------------------------------ grading

    def grade(self, reference: str, answer: str | None, test_cases: dict[str, str]) -> Grade:
        """Grade one answer (the text as the agent gave it, fences and prose included; None: it gave none)."""
        facts = self._reference(reference, test_cases)
        if facts.ungradable:
            return Grade(None, ungradable=facts.ungradable)
        names = list(test_cases)
        if answer is None or not answer.strip():
            return _all_failed(names, "no answer")
        candidates = code_candidates(answer, facts.function)
        if not candidates:
            return _all_failed(names, "no code", f"no definition of {facts.function or 'a function'} in the answer")
        modules = modules_for(imported_names(candidates[0]) | imported_names(facts.prelude))
        job = Job(candidates, list(test_cases.values()), facts.function, facts.prelude, modules)
        outcomes = self._run("answer", 0, job)
        tests = [_compare(*row) for row in zip(names, facts.results, outcomes, strict=True)]
        failure = next((test.reason for test in tests if not test.passed), None)
        return Grade(sum(test.passed for test in tests) / len(tests), tests, failure)

    def grade_many(self, jobs: Iterable[tuple]) -> Iterator[tuple]:
        """Grade (key, reference, answer, test_cases) rows on all workers; yields (key, Grade) in their order."""
        with ThreadPoolExecutor(self.workers) as executor:
            waiting: deque = deque()
            try:
                for key, *row in jobs:
                    waiting.append((key, executor.submit(self.grade, *row)))
                    if len(waiting) >= 8 * self.workers:
                        first, future = waiting.popleft()
                        yield first, future.result()
                while waiting:
                    first, future = waiting.popleft()
                    yield first, future.result()
            finally:
                for _, future in waiting:
                    future.cancel()

    def ungradable(self, reference: str, test_cases: dict[str, str]) -> str | None:
        """Why a task cannot be graded (its reference fails, hangs or answers differently each time), or None."""
        return self._reference(reference, test_cases).ungradable

    # ----------------------------------------------------------------------------------------------- reference

    def _reference(self, reference: str, test_cases: dict[str, str]) -> _Reference:
        """The reference's results, computed once and kept by content."""
        key = hashlib.sha256(json.dumps([reference, test_cases]).encode()).hexdigest()
        with self._lock:
            future = self._references.get(key)
            mine = future is None
            if mine:
                future = self._references[key] = Future()
                if len(self._references) > CACHED_REFERENCES:
                    self._references.popitem(last=False)
        if mine:
            try:
                future.set_result(self._run_reference(reference, test_cases))
            except BaseException as error:
                with self._lock:
                    self._references.pop(key, None)
                future.set_exception(error)
                raise
        return future.result()

    def _run_reference(self, reference: str, test_cases: dict[str, str]) -> _Reference:
        function, prelude = function_name(reference, test_cases), call_prelude(reference, test_cases)
        facts = _Reference(None, None, function, prelude)
        if not test_cases:
            facts.ungradable = "the task has no test cases"
            return facts
        modules = modules_for(imported_names(reference))
        job = Job([reference], list(test_cases.values()), function, prelude, modules)
        seeds = [0, 1, 2, 3, 0, 1] if CHANCE.search(reference) else [0, 1]
        for seed in seeds:
            outcomes = self._run("reference", seed, job)
            for name, (reason, content) in zip(test_cases, outcomes, strict=True):
                if reason != "value":
                    facts.ungradable = f"the reference fails {name}: {reason}: {content}"
                    return facts
            results = [content for _, content in outcomes]
            if facts.results is None:
                facts.results = results
            for name, before, now in zip(test_cases, facts.results, results, strict=True):
                if not same(before, now):
                    facts.ungradable = f"the reference gives different results for {name} on two runs"
                    return facts
        return facts

    # ----------------------------------------------------------------------------------------------- sandboxes

    def _run(self, role: str, hash_seed: int, job: Job) -> list[tuple]:
        """Run a job in a warm process of its role; one that has died is replaced, once."""
        key = (role, hash_seed, job.modules)
        for attempt in (1, 2):
            sandbox = self._take(key, warm=attempt == 1)
            try:
                outcomes = sandbox.run(job)
            except (EOFError, OSError):
                sandbox.close()
                if attempt == 2:
                    return [("exited", "the sandbox was ended while it ran this answer")] * len(job.tests)
            except BaseException:
                sandbox.close()
                raise
            else:
                self._give_back(key, sandbox)
                return outcomes
        raise AssertionError("unreachable")

    def _take(self, key: tuple, warm: bool) -> Sandbox:
        with self._lock:
            if self._closed:
                raise RuntimeError("this CodeGrader is closed")
            if warm and self._idle.get(key):
                return self._idle[key].pop()
        return Sandbox(self.level, self.timeout, self.memory_mb, modules=key[2], hash_seed=key[1])

    def _give_back(self, key: tuple, sandbox: Sandbox) -> None:
        """Keep the process warm for the next job; the longest unused one goes when there are too many."""
        surplus = []
        with self._lock:
            self._idle.setdefault(key, []).append(sandbox)
            self._idle.move_to_end(key)
            while self._closed or sum(map(len, self._idle.values())) > 6 * self.workers + 8:
                oldest = next((k for k, idle in self._idle.items() if idle), None)
                if oldest is None:
                    break
                surplus.append(self._idle[oldest].pop(0))
                if not self._idle[oldest]:
                    del self._idle[oldest]
        for extra in surplus:
            extra.close()

    def close(self) -> None:
        """End every warm process. The grader cannot be used afterwards."""
        with self._lock:
            self._closed = True
            sandboxes = [sandbox for idle in self._idle.values() for sandbox in idle]
            self._idle.clear()
        for sandbox in sandboxes:
            sandbox.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _all_failed(names: list[str], reason: str, message: str | None = None) -> Grade:
    return Grade(0.0, [TestResult(name, False, reason, message) for name in names], reason)


def _compare(name: str, expected, outcome: tuple) -> TestResult:
    reason, content = outcome
    if reason != "value":
        return TestResult(name, False, reason, content)
    if same(expected, content):
        return TestResult(name, True)
    return TestResult(name, False, "wrong value", f"expected {preview(expected)}, got {preview(content)}")
