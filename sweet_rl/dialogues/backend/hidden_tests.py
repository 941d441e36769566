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
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import cast

from sweet_rl.dialogues.backend.calls import HiddenTest, prelude, read_tests
from sweet_rl.dialogues.backend.extract_code import code_candidates, function_name, imported_names
from sweet_rl.dialogues.fences import MAX_ANSWER_CHARS
from sweet_rl.dialogues.protocols import Grade
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task
from sweet_rl.sandbox.sandbox import NO_RESULT, Job, Outcome, Pool, pack_tests
from sweet_rl.sandbox.values import decode, preview, same

SEEDS = (0, 1)  # of Python's hashes; a reference whose values differ between them cannot be graded against
NO_TESTS = "the task has no test cases"


@dataclass(frozen=True)
class Reference:
    """What is known of a task.

    Attributes:
        function: Name of the function that the answer has to define; "" if unknown.
        tests: Its hidden tests by name.
        packed: The calls and their prelude, for the sandbox. The prelude holds the imports and constants of the
            reference that the arguments name. No other constant may be in the answer's process.
        imports: Modules that the prelude imports.
        values: Texts of the values of the calls; None for a call that gives none (released rules only).
        ungradable: Reason why no answer can be graded against it.
    """

    function: str
    tests: Mapping[str, HiddenTest] = field(default_factory=dict)
    packed: bytes = b""
    imports: frozenset[str] = frozenset()
    values: Sequence[bytes | None] = ()
    ungradable: str | None = None


def read_reference(task: Task) -> Reference:
    """What is known of a task before its reference has run."""
    function = function_name(task.ground_truth, task.test_cases)
    try:
        tests = read_tests(task.test_cases, task.ground_truth)
    except ValueError as error:
        return Reference(function, ungradable=str(error))
    needed = prelude(task.ground_truth, {name for test in tests.values() for name in test.names})
    packed = pack_tests([test.code for test in tests.values()], compile(needed, "prelude", "exec", dont_inherit=True))
    imports = frozenset(imported_names(needed))
    return Reference(function, tests, packed, imports, ungradable=None if tests else NO_TESTS)


class CodeGrader(AbstractContextManager):
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

    def grade(self, task: Task, answer: str | None) -> Grade:
        """The grade of one answer: the text as the agent gave it, fences and prose included; None if it gave none."""
        (grade,) = self.grade_many([(task, answer)])
        return grade

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

    def ungradable(self, task: Task) -> str | None:
        """Why a task cannot be graded (its tests are none, its reference fails or varies), or None."""
        return self._reference(task).result().ungradable

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
            return self._judge([], ungradable=reference.ungradable)
        if answer is None or not answer.strip():
            return self._all_failed(reference, "no answer")
        if len(answer) > MAX_ANSWER_CHARS:
            return self._all_failed(reference, "too long", f"an answer of {len(answer):,} characters")
        texts = code_candidates(answer, reference.function)
        if not texts:
            missing = f"no definition of {reference.function or 'a function'} in the answer"
            other = bool(reference.function and code_candidates(answer, ""))
            return self._all_failed(reference, "another name" if other else "no code", missing)
        return self._grade_code(reference, texts)

    def _grade_code(self, reference: Reference, texts: list[str]) -> Grade:
        outcomes = self._run("answer", 0, reference, texts)
        rows = zip(reference.tests, reference.values, outcomes, strict=True)
        tests = [self._compare(name, reference.tests[name], expected, outcome) for name, expected, outcome in rows]
        return self._judge(tests)

    def _compare(self, name: str, test: HiddenTest, expected: bytes | None, outcome: Outcome) -> dict:
        """The evidence of one test: the value of the answer compared with the value of the reference."""
        reason, content = outcome
        if reason != "value":
            return result(name, reason, str(content))
        if content == expected:
            return result(name)
        return self._compare_trees(name, expected, cast(bytes, content))

    def _compare_trees(self, name: str, expected: bytes | None, content: bytes) -> dict:
        try:
            got = decode(content)
        except ValueError:
            return result(name, *NO_RESULT)
        tree = decode(cast(bytes, expected))
        if self.equal(tree, got):
            return result(name)
        return result(name, "wrong value", f"expected {preview(tree)}, got {preview(got)}")

    def equal(self, expected, got) -> bool:
        """Whether the tree of an answer's value stands for the reference's."""
        return same(expected, got)

    def _run_reference(self, task: Task) -> Reference:
        """Run the reference under different hash seeds. Values that differ make the task ungradable."""
        reference = read_reference(task)
        if reference.ungradable:
            return reference
        first: list[bytes] = []
        for seed in SEEDS:
            outcomes = self._run("reference", seed, reference, [task.ground_truth])
            for name, (reason, content) in zip(reference.tests, outcomes, strict=True):
                if reason != "value":
                    return replace(reference, ungradable=f"the reference fails {name}: {reason}: {content!s}")
            values = [cast(bytes, content) for _, content in outcomes]
            first = first or values
            for name, one, other in zip(reference.tests, first, values, strict=True):
                if one != other and not same(decode(one), decode(other)):
                    reason = f"the reference gives different results for {name} on two runs"
                    return replace(reference, ungradable=reason)
        return replace(reference, values=first)

    def _run(self, role: str, seed: int, reference: Reference, texts: list[str]) -> list[Outcome]:
        """The outcomes of the tests on one code, in a process of its role."""
        called = {test.function for test in reference.tests.values()}
        job = Job(texts, reference.packed, len(reference.tests), called, self.scope)
        return self._pool.run(role, seed, job, imported_names("\n".join(texts)) | reference.imports)

    def _judge(self, tests: list[dict], ungradable: str | None = None) -> Grade:
        evidence = {"level": self.level, "tests": tests}
        if self.rules != "sweet_rl":
            evidence["rules"] = self.rules
        if ungradable:
            return Grade(None, ungradable=ungradable, evidence=evidence)
        failure = next((test["reason"] for test in tests if not test["passed"]), None)
        return Grade(sum(test["passed"] for test in tests) / len(tests), failure, evidence=evidence)

    def _all_failed(self, reference: Reference, reason: str, message: str | None = None) -> Grade:
        return self._judge([result(name, reason, message) for name in reference.tests])

    def close(self) -> None:
        """End every process of the grader. It cannot be used afterwards."""
        self._executor.shutdown(cancel_futures=True)
        self._pool.close()

    def __exit__(self, *_):
        self.close()


def result(name: str, reason: str | None = None, message: str | None = None) -> dict:
    """The evidence of one test, which passed if there is no reason."""
    row = {"name": name, "passed": reason is None, "reason": reason, "message": message}
    return {key: value for key, value in row.items() if value is not None}
