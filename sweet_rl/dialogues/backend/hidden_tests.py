"""Grade Python answers: the reference solution and the answer run in processes apart, their values are compared here.

    from sweet_rl.dialogues.backend.hidden_tests import CodeGrader

    task = Task("Add one.", "def f(x):\n    return x + 1", {"test1": "f(1)"})
    with CodeGrader() as grader:
        grade = grader.grade(task, "```python\ndef f(x): return 1 + x\n```")
        print(grade.reward, grade.failure, grade.evidence["tests"])

A hidden test is a call, or a call compared with a literal (`calls.py`). The expected value is what the reference
returns for the call (`references.py`). The literal is not used, because those of ColBench are often not what its
references return. The docstring of `sweet_rl.sandbox` says what is promised on which system.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from itertools import islice
from typing import cast

from sweet_rl.dialogues.backend.extract_code import code_candidates, imported_names
from sweet_rl.dialogues.backend.references import Reference, References, run_reference
from sweet_rl.dialogues.protocols import MAX_ANSWER_CHARS, Grade
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task
from sweet_rl.sandbox.sandbox import NO_RESULT, Job, Outcome, Pool
from sweet_rl.sandbox.values import decode, preview, same

CHUNK = 8  # answers that a worker takes at a time


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
    equal_to_itself = True  # every value; under the released rules NaN and arrays are not

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
        self._references = References(self._run_reference)

    def describe(self) -> str:
        """One line for people: how answers are contained."""
        note = " (answers can read and write your files and reach the network)" if self.level == "none" else ""
        return f"sandbox: {self.level}{note}"

    def grade(self, task: Task, answer: str | None) -> Grade:
        """The grade of one answer: the text as the agent gave it, fences and prose included; None if it gave none."""
        reference = self._references.of(task)
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

    def grade_many(self, jobs: Iterable[tuple[Task, str | None]]) -> Iterator[Grade]:
        """The grades of (task, answer) pairs, in order, on all workers. `jobs` is read as far as that needs."""

        def grade_all(rows: list) -> list[Grade]:
            return [self.grade(*row) for row in rows]

        jobs = iter(jobs)
        waiting: deque[Future] = deque()
        with ThreadPoolExecutor(self.workers) as executor:
            try:
                while (rows := list(islice(jobs, CHUNK))) or waiting:
                    if rows:
                        waiting.append(executor.submit(grade_all, rows))
                    if not rows or len(waiting) >= 4 * self.workers:
                        yield from waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    def ungradable(self, task: Task) -> str | None:
        """Why a task cannot be graded (its tests are none, its reference fails or varies), or None."""
        return self._references.of(task).ungradable

    def _run_reference(self, task: Task) -> Reference:
        return run_reference(task, lambda reference, seed: self._run("reference", seed, reference, [task.ground_truth]))

    def _run(
        self, role: str, seed: int, reference: Reference, texts: list[str], longest: int | None = None
    ) -> list[Outcome]:
        """The outcomes of the tests on one code, in a process of its role."""
        job = Job(texts, reference.packed, len(reference.literals), reference.called, self.scope, longest)
        return self._pool.run(role, seed, job, imported_names("\n".join(texts)) | reference.imports)

    def _grade_code(self, reference: Reference, texts: list[str]) -> Grade:
        outcomes = self._run("answer", 0, reference, texts, reference.longest)
        rows = zip(reference.literals, outcomes, strict=True)
        tests = [self._compare(name, reference, i, outcome) for i, (name, outcome) in enumerate(rows)]
        return self._judge(tests)

    def _compare(self, name: str, reference: Reference, number: int, outcome: Outcome) -> dict:
        """The evidence of one test: the value of the answer compared with the value of the reference."""
        reason, content = outcome
        if reason != "value":
            return result(name, reason, str(content))
        if self.equal_to_itself and content == reference.results[number]:
            return result(name)
        try:
            got = decode(cast(bytes, content))
        except ValueError:
            return result(name, *NO_RESULT)
        expected = reference.trees[number]
        if self.equal(expected, got):
            return result(name)
        return result(name, "wrong value", f"expected {preview(expected)}, got {preview(got)}")

    def equal(self, expected, got) -> bool:
        """Whether the tree of an answer's value stands for the reference's."""
        return same(expected, got)

    def _judge(self, tests: list[dict], ungradable: str | None = None) -> Grade:
        evidence = {"level": self.level, "tests": tests}
        if self.rules != "sweet_rl":
            evidence["rules"] = self.rules
        if ungradable:
            return Grade(None, ungradable=ungradable, evidence=evidence)
        failure = next((test["reason"] for test in tests if not test["passed"]), None)
        return Grade(sum(test["passed"] for test in tests) / len(tests), failure, evidence=evidence)

    def _all_failed(self, reference: Reference, reason: str, message: str | None = None) -> Grade:
        return self._judge([result(name, reason, message) for name in reference.literals])

    def close(self) -> None:
        """End every process of the grader. It cannot be used afterwards."""
        self._pool.close()

    def __exit__(self, *_):
        self.close()


def result(name: str, reason: str | None = None, message: str | None = None) -> dict:
    """The evidence of one test, which passed if there is no reason."""
    row = {"name": name, "passed": reason is None, "reason": reason, "message": message}
    return {key: value for key, value in row.items() if value is not None}
