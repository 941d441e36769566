"""Grade Python answers: the reference solution and the answer run in processes apart, their values are compared here.

    from sweet_rl.dialogues.backend.hidden_tests import CodeGrader

    task = Task("Add one.", "def f(x):\n    return x + 1", {"test1": "f(1)"})
    with CodeGrader() as grader:
        grade = grader.grade(task, "```python\ndef f(x): return 1 + x\n```")
        print(grade.reward, grade.failure, grade.evidence["tests"])

A hidden test is a call, or a call compared with a literal (`calls.py`). The expected value is what the reference
returns for the call, in a process that no answer ever runs in, so nothing that an answer can read has ever held it. The
literal is not used, because those of ColBench are often not what its references return. The docstring of
`sweet_rl.sandbox` says what is promised on which system.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import cast

from sweet_rl.dialogues.backend.calls import HiddenTest, read_tests
from sweet_rl.dialogues.backend.extract_code import code_candidates, imported_names
from sweet_rl.dialogues.domain import Grade, Grader
from sweet_rl.dialogues.fences import MAX_ANSWER_CHARS
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task
from sweet_rl.sandbox.sandbox import NO_RESULT, Job, Outcome, Pool, pack_tests
from sweet_rl.sandbox.values import decode, preview, same

SEEDS = (0, 1)  # of Python's hashes; a reference whose values differ between them cannot be graded against


@dataclass(frozen=True)
class Reference:
    """What a grader knows of a task.

    Attributes:
        function: Name of the function that the answer has to define.
        tests: Its hidden tests by name.
        packed: The calls and their prelude, for the sandbox.
        imports: Modules that the prelude imports.
        values: Texts of the values of the calls; None for a call that gives none (released rules only).
        ungradable: Reason why no answer can be graded against it.
    """

    function: str = ""
    tests: Mapping[str, HiddenTest] = field(default_factory=dict)
    packed: bytes = b""
    imports: frozenset[str] = frozenset()
    values: Sequence[bytes | None] = ()
    ungradable: str | None = None


def read_reference(task: Task) -> Reference:
    """What a grader knows of a task before its reference has run."""
    if not task.test_cases:
        return Reference(ungradable="the task has no test cases")
    try:
        found = read_tests(task.test_cases, task.ground_truth)
    except ValueError as error:
        return Reference(ungradable=str(error))
    prelude = compile(found.prelude, "prelude", "exec", dont_inherit=True)
    packed = pack_tests([test.code for test in found.tests.values()], prelude)
    return Reference(found.function, found.tests, packed, frozenset(imported_names(found.prelude)))


class CodeGrader(Grader):
    """A `Grader` that runs answers on the hidden tests of their task. The reward is the share of tests passed.

    Failures: wrong value, exception, timeout, memory, forbidden, missing module, unserialisable, exited, output, syntax
    error; no answer, too long, no code, another name (code that does not define the function). Evidence: {"level",
    "tests": [{"name", "passed", "reason"?, "message"?}]}.

    Args:
        timeout: CPU seconds per test, as in `sandbox.sandbox.Sandbox`.
        memory_mb: Memory that an answer may use, in MB, as there.
        workers: Number of answers graded at the same time. Default: two per core, so that no core is idle during a
            fork.
        sandbox: "seccomp", or "none": answers run as plain processes.

    Raises:
        SandboxUnavailable: This system has no sandbox.
        UserError: A setting is out of range.
    """

    scope, rules = "module", "sweet_rl"

    def __init__(
        self, timeout: float = 1.0, memory_mb: int = 256, workers: int | None = None, sandbox: str = "seccomp"
    ):
        if timeout <= 0 or memory_mb <= 0 or (workers is not None and workers <= 0):
            raise UserError(
                f"timeout ({timeout}), memory_mb ({memory_mb}) and workers ({workers}) must be more than 0."
            )
        self.timeout, self.memory_mb = timeout, memory_mb
        self.workers = workers or 2 * (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)
        self.level = sandbox
        self._pool = Pool(sandbox, timeout, memory_mb, self.workers)
        self._executor = ThreadPoolExecutor(self.workers)
        self._references: dict[tuple, Future[Reference]] = {}

    def describe(self) -> str:
        """One line for people: how answers are contained."""
        note = " (answers can read and write your files and reach the network)" if self.level == "none" else ""
        return f"sandbox: {self.level}{note}"

    def grade_many(self, jobs: Iterable[tuple[Task, str | None]]) -> Iterator[Grade]:
        """The grades of (task, answer) pairs, in order, on all workers. `jobs` is read as far as that needs."""
        waiting: deque[Future[Grade]] = deque()
        try:
            for task, answer in jobs:
                waiting.append(self._executor.submit(self._grade, self._reference(task), answer))
                if len(waiting) >= 32 * self.workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def _reference(self, task: Task) -> "Future[Reference]":
        """What the reference of a task gives. It runs once, before the first answer of the task."""
        key = (task.ground_truth, *task.test_cases.items())
        known = self._references.get(key)
        if known is None:
            known = self._references[key] = self._executor.submit(self._run_reference, task)
        return known

    def _grade(self, waiting: "Future[Reference]", answer: str | None) -> Grade:
        reference = waiting.result()
        if reference.ungradable:
            return Grade(None, ungradable=reference.ungradable, evidence=self._evidence([]))
        if answer is None or not answer.strip():
            return self._all_failed(reference, "no answer")
        if len(answer) > MAX_ANSWER_CHARS:
            return self._all_failed(reference, "too long", f"an answer of {len(answer):,} characters")
        texts = code_candidates(answer, reference.function)
        if not texts:
            reason = "another name" if code_candidates(answer, "") else "no code"
            return self._all_failed(reference, reason, f"no definition of {reference.function} in the answer")
        return self._grade_code(reference, texts)

    def _grade_code(self, reference: Reference, texts: list[str]) -> Grade:
        outcomes = self._run("answer", 0, reference, texts)
        rows = zip(reference.tests.items(), reference.values, outcomes, strict=True)
        return self._judge([self._compare(name, test, value, outcome) for (name, test), value, outcome in rows])

    def _compare(self, name: str, test: HiddenTest, expected: bytes | None, outcome: Outcome) -> dict:
        """The evidence of one test: the value of the answer compared with the value of the reference."""
        reason, content = outcome
        if expected is None:
            return result(name, "reference failed")
        if reason != "value":
            return result(name, reason, str(content))
        if content == expected and self.rules == "sweet_rl":
            return result(name)
        try:
            tree, got = decode(expected), decode(cast(bytes, content))
        except ValueError:
            return result(name, *NO_RESULT)
        if self.equal(tree, got, test):
            return result(name)
        return result(name, "wrong value", f"expected {preview(tree)}, got {preview(got)}")

    def equal(self, expected, got, test: HiddenTest) -> bool:
        """Whether the tree of an answer's value stands for the reference's."""
        return same(expected, got)

    def _run_reference(self, task: Task) -> Reference:
        """Run the reference under different hash seeds. Values that differ make the task ungradable."""
        reference = read_reference(task)
        if reference.ungradable:
            return reference
        runs = []
        for seed in SEEDS:
            outcomes = self._run("reference", seed, reference, [task.ground_truth])
            for name, (reason, content) in zip(reference.tests, outcomes, strict=True):
                if reason != "value":
                    return replace(reference, ungradable=f"the reference fails {name}: {reason}: {content!s}")
            runs.append([cast(bytes, content) for _, content in outcomes])
        for name, one, other in zip(reference.tests, *runs, strict=True):
            if one != other and not same(decode(one), decode(other)):
                return replace(reference, ungradable=f"the reference gives different results for {name} on two runs")
        return replace(reference, values=runs[0])

    def _run(self, role: str, seed: int, reference: Reference, texts: list[str]) -> list[Outcome]:
        """The outcomes of the tests on one code, in a process of its role."""
        called = {test.function for test in reference.tests.values()}
        job = Job(texts, reference.packed, len(reference.tests), called, self.scope)
        return self._pool.run(role, seed, job, imported_names("\n".join(texts)) | reference.imports)

    def _judge(self, tests: list[dict]) -> Grade:
        failure = next((test["reason"] for test in tests if not test["passed"]), None)
        return Grade(sum(test["passed"] for test in tests) / len(tests), failure, evidence=self._evidence(tests))

    def _evidence(self, tests: list[dict]) -> dict:
        evidence = {"level": self.level, "tests": tests}
        return evidence if self.rules == "sweet_rl" else evidence | {"rules": self.rules}

    def _all_failed(self, reference: Reference, reason: str, message: str | None = None) -> Grade:
        return self._judge([result(name, reason, message) for name in reference.tests])

    def close(self) -> None:
        self._executor.shutdown(cancel_futures=True)
        self._pool.close()


def result(name: str, reason: str | None = None, message: str | None = None) -> dict:
    """The evidence of one test, which passed if there is no reason."""
    row = {"name": name, "passed": reason is None, "reason": reason, "message": message}
    return {key: value for key, value in row.items() if value is not None}
