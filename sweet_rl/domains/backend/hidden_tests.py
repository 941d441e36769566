"""Grade Python answers: the reference solution and the answer run in processes apart, their values are compared here.

    from sweet_rl.domains.backend.hidden_tests import CodeGrader

    task = Task("Add one.", "def f(x):\n    return x + 1", {"test1": "f(1)"})
    with CodeGrader() as grader:
        grade = grader.grade(task, "```python\ndef f(x): return 1 + x\n```")
        print(grade.reward, grade.failure, grade.evidence["tests"])

The results of a reference come from warm processes that no answer ever runs in, so nothing that an answer can read
has ever held them. A test that does more than call the answer is taken apart (`take_apart.py`): what it does with the
values runs in processes of a third role. The docstring of `sweet_rl.sandbox` says what is promised on which system.
"""

import os
import re
import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import cast

from sweet_rl.domains.backend.extract_code import call_prelude, code_candidates, function_name, imported_names
from sweet_rl.domains.backend.take_apart import Parts, given_away, take_apart
from sweet_rl.domains.base import MAX_ANSWER_CHARS, Grade
from sweet_rl.errors import UserError
from sweet_rl.records import Task
from sweet_rl.sandbox.pool import Pool
from sweet_rl.sandbox.sandbox import NO_RESULT, Job, available_level, compile_job
from sweet_rl.sandbox.values import SOURCE_MODULES, decode, preview, same, source

# Code with one of these words may give another result each time: such a reference is run more often.
CHANCE = re.compile(
    r"\b(random|rand\w*|shuffle|choice|sample|uuid\w*|secrets|time|now|today|perf_counter|hash|id|set|frozenset|getpid"
    r"|urandom|object|globals|locals)\b|\{\s*['\"][^:{}]*\}|\{[^:{}]*\bfor\b"
)
VALUES = "_values_of_test_"  # and its place: the name of the text that makes the values
NOT_APART = "cannot be judged apart from the answer"
CACHED_REFERENCES = 20_000
# The text of an equal value cannot be so much longer than the reference's: longer ones are not even read.
MAX_LONGER_BYTES, MAX_TIMES_LONGER = 1 << 16, 30
CHUNK = 8  # answers that a worker takes at a time


@dataclass
class Reference:
    """What is known of a task.

    Attributes:
        calls: Tests by name.
        function: Name of the function that the calls call; "" if unknown.
        parts: The parts of each test.
        prelude: Imports and constants of the reference that the tests' calls of the answer name; no other constant may
            be in the answer's process, because a test may compare with it.
        tests: What the tests ask of the answer, and the prelude, compiled; only children of the sandbox load it.
        rest_prelude: Imports and constants that the rests of the tests name.
        rests: The rests of the tests that have one, and their prelude, compiled likewise.
        longest: Bytes of the longest text that may still be a value that passes.
        results: Texts of the values of the tests; None for a test that gives none (released rules only). Empty until
            the reference has run.
        ungradable: Reason why no answer can be graded against it.
        machine: What the machine did to the reference; it is not kept, the next answer tries again.
    """

    calls: dict[str, str]
    function: str
    parts: list[Parts] = field(default_factory=list)
    prelude: str = ""
    tests: bytes = b""
    rest_prelude: str = ""
    rests: bytes = b""
    longest: int = 0
    results: list[bytes | None] = field(default_factory=list)
    ungradable: str | None = None
    machine: str | None = None
    _trees: list | None = None

    def tree(self, number: int):
        """The value of a call as a tree; texts are decoded when the first value differs."""
        if self._trees is None:
            self._trees = [None if text is None else decode(text) for text in self.results]
        return self._trees[number]


class CodeGrader(AbstractContextManager):
    """A `Grader` that runs answers on the hidden tests of their task. The reward is the share of tests passed.

    Failures: wrong value, exception, timeout, memory, forbidden, unserialisable, exited, output, syntax error; no
    answer, too long, no code, another name (code that does not define the function). Evidence: {"level", "tests":
    [{"name", "passed", "reason"?, "message"?}]}.

    Args:
        timeout: CPU seconds per test, as in `sandbox.sandbox.Sandbox`.
        memory_mb: Memory that an answer may use, in MB, as there.
        workers: Number of answers graded at the same time. Default: two per core, so that no core is idle during a
            fork.
        sandbox: Level of the sandbox, or auto. `level` is the active one, `weaker_because` why not a stronger one.

    Raises:
        SandboxUnavailable: The requested level is not available here.
        UserError: A setting is out of range.
    """

    scope, rules = "module", "sweet_rl"
    whole_tests = False  # whether `f(1) == 5` is evaluated, and not the value of `f(1)` compared
    equal_to_itself = True  # every value; under the released rules NaN and arrays are not

    def __init__(self, timeout: float = 1.0, memory_mb: int = 256, workers: int | None = None, sandbox: str = "auto"):
        if timeout <= 0 or memory_mb <= 0 or (workers is not None and workers <= 0):
            raise UserError(
                f"timeout ({timeout}), memory_mb ({memory_mb}) and workers ({workers}) must be more than 0."
            )
        self.timeout, self.memory_mb = timeout, memory_mb
        self.workers = workers or 2 * (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)
        self.level, self.weaker_because = available_level(sandbox)
        self._pool = Pool(self.level, timeout, memory_mb, self.workers)
        self._references: OrderedDict[tuple, Future] = OrderedDict()
        self._lock = threading.Lock()

    def describe(self) -> str:
        """One line for people: the active level, and why it is not a stronger one."""
        note = f" ({self.weaker_because})" if self.weaker_because else ""
        return f"sandbox level: {self.level}{note}"

    # ------------------------------------------------------------------------------------------------ grading

    def grade(self, task: Task, answer: str | None) -> Grade:
        """The grade of one answer: the text as the agent gave it, fences and prose included; None if it gave none."""
        reference = self._reference(task)
        if reference.ungradable:
            return self._judge([], ungradable=reference.ungradable)
        if reference.machine:
            return self._judge([], machine=f"while the reference ran: {reference.machine}")
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
        with ThreadPoolExecutor(self.workers) as executor:
            waiting: deque[Future] = deque()
            try:
                while True:
                    rows = list(islice(jobs, CHUNK))
                    if rows:
                        waiting.append(executor.submit(grade_all, rows))
                    if not waiting:
                        return
                    if not rows or len(waiting) >= 4 * self.workers:
                        yield from waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    def ungradable(self, task: Task) -> str | None:
        """Why a task cannot be graded (its reference fails, hangs or answers differently each time), or None."""
        return self._reference(task).ungradable

    def _grade_code(self, reference: Reference, texts: list[str]) -> Grade:
        outcomes = self._run("answer", 0, reference, texts)
        machine = next((message for reason, message in outcomes if reason == "machine"), None)
        rows = zip(reference.calls, outcomes, strict=True)
        tests = [self._compare(name, reference, i, outcome) for i, (name, outcome) in enumerate(rows)]
        return self._judge(tests, machine=machine)

    def _judge(self, tests: list[dict], ungradable: str | None = None, machine: str | None = None) -> Grade:
        evidence = {"level": self.level, "tests": tests}
        if self.rules != "sweet_rl":
            evidence["rules"] = self.rules
        if ungradable or machine:
            return Grade(None, ungradable=ungradable, machine=machine, evidence=evidence)
        failure = next((test["reason"] for test in tests if not test["passed"]), None)
        return Grade(sum(test["passed"] for test in tests) / len(tests), failure, evidence=evidence)

    def _all_failed(self, reference: Reference, reason: str, message: str | None = None) -> Grade:
        return self._judge([result(name, reason, message) for name in reference.calls])

    def _compare(self, name: str, reference: Reference, number: int, outcome: tuple) -> dict:
        """The evidence of one test: the value of the answer compared with the value of the reference."""
        reason, content = outcome
        if reason != "value":
            return result(name, reason, content)
        if self.equal_to_itself and content == reference.results[number]:
            return result(name)
        try:
            got = decode(content)
        except ValueError:
            return result(name, *NO_RESULT)
        expected = reference.tree(number)
        if self.equal(expected, got):
            return result(name)
        return result(name, "wrong value", f"expected {preview(expected)}, got {preview(got)}")

    def equal(self, expected, got) -> bool:
        """Whether the tree of an answer's value stands for the reference's."""
        return same(expected, got)

    # ----------------------------------------------------------------------------------------------- references

    def _reference(self, task: Task) -> Reference:
        """What the task's reference gives, computed once and kept by content."""
        key = (task.ground_truth, *task.test_cases.items())
        with self._lock:
            known = self._references.get(key)
            future = Future() if known is None else known
            if known is None:
                self._references[key] = future
                if len(self._references) > CACHED_REFERENCES:
                    self._references.popitem(last=False)
        if known is None:
            reference = None
            try:
                reference = self._run_reference(task.ground_truth, dict(task.test_cases))
                future.set_result(reference)
            except BaseException as error:
                future.set_exception(error)
                raise
            finally:
                if reference is None or reference.machine:
                    with self._lock:
                        self._references.pop(key, None)
        return future.result()

    def _run_reference(self, code: str, calls: dict[str, str]) -> Reference:
        """Run the reference under different hash seeds. Values that differ make the task ungradable."""
        reference = Reference(calls, function_name(code, calls))
        if not calls:
            reference.ungradable = "the task has no test cases"
            return reference
        self._compile_tests(reference, code)
        if reference.ungradable or reference.machine:
            return reference
        for seed in [0, 1, 2, 3, 0, 1] if CHANCE.search(code) else [0, 1]:
            outcomes = self._run("reference", seed, reference, [code])
            for name, (reason, content) in zip(calls, outcomes, strict=True):
                if reason == "machine":
                    reference.machine = content
                    return reference
                if reason != "value":
                    reference.ungradable = f"the reference fails {name}: {reason}: {content}"
                    return reference
            results = [content for _, content in outcomes]
            if not reference.results:
                reference.results = results
            for number, (name, text) in enumerate(zip(calls, results, strict=True)):
                if text != reference.results[number] and not same(reference.tree(number), decode(text)):
                    reference.ungradable = f"the reference gives different results for {name} on two runs"
                    return reference
        return reference

    def _compile_tests(self, reference: Reference, code: str) -> None:
        prelude = call_prelude(code, reference.calls.values())
        for number, (name, call) in enumerate(reference.calls.items()):
            try:
                reference.parts.append(take_apart(call, code, prelude, number, self.whole_tests))
            except ValueError as error:
                reference.ungradable = f"{name} {NOT_APART}: {error}"
                return
            except LookupError as error:
                reference.ungradable = f"the reference fails {name}: {error}"
                return
        if known := given_away(reference.parts):
            reason = f"a call of the answer names {', '.join(sorted(known))}, with which a test compares"
            reference.ungradable = f"the tests {NOT_APART}: {reason}"
            return
        asked = [parts.asked for parts in reference.parts]
        reference.prelude = call_prelude(code, chain.from_iterable(asked))
        reference.tests = self._compile(reference, asked, reference.prelude)
        rests = [_with_values(place, parts.rest) for place, parts in enumerate(reference.parts) if parts.rest]
        if rests and reference.tests:
            reference.rest_prelude = call_prelude(code, rests)
            reference.rests = self._compile(reference, rests, reference.rest_prelude)

    def _compile(self, reference: Reference, calls: Sequence[str | list[str]], prelude: str) -> bytes:
        ((reason, content),) = self._pool.run("reference", 0, compile_job(calls, prelude), set())
        if reason == "value":
            return cast(bytes, content)
        if reason == "machine":
            reference.machine = str(content)
        else:
            reference.ungradable = f"the test calls cannot be compiled: {reason}: {content!s}"
        return b""

    def _run(self, role: str, seed: int, reference: Reference, texts: list[str]) -> list:
        """The outcomes of the tests on one code, in a process of its role."""
        longest = reference.longest if role == "answer" else None
        job = Job(texts, reference.tests, len(reference.calls), reference.function, self.scope, longest)
        imports = imported_names("\n".join(texts)) | imported_names(reference.prelude)
        outcomes = self._pool.run(role, seed, job, imports)
        if role == "reference":
            length = max((len(content) for reason, content in outcomes if reason == "value"), default=0)
            reference.longest = max(reference.longest, MAX_LONGER_BYTES + MAX_TIMES_LONGER * length)
        return self._run_rests(seed, reference, outcomes) if reference.rests else outcomes

    def _run_rests(self, seed: int, reference: Reference, outcomes: list) -> list:
        """The outcomes after the rests of the tests have run, on plain data, in a process that has held no answer."""
        places, texts = [place for place, parts in enumerate(reference.parts) if parts.rest], []
        for place in places:
            reason, content = outcomes[place]
            if reason == "value":
                try:
                    texts.append((place, _assignment(reference.parts[place].values, decode(content))))
                except (TypeError, ValueError) as error:
                    outcomes[place] = ("unserialisable", f"the test needs plain data: {error}")
        if texts:
            # Each test makes its own values (`_with_values`), so one that cannot be made fails no other test.
            text = "\n".join(f"{VALUES}{place} = {assignment!r}" for place, assignment in texts)
            modules = {name for name in SOURCE_MODULES if f"{name}." in text}
            job = Job(["".join(f"import {name}\n" for name in modules) + text], reference.rests, len(places))
            verdicts = self._pool.run("rest", seed, job, modules | imported_names(reference.rest_prelude))
            for place, verdict in zip(places, verdicts, strict=True):
                if outcomes[place][0] == "value":
                    outcomes[place] = verdict
        return outcomes

    def close(self) -> None:
        """End every process of the grader. It cannot be used afterwards."""
        self._pool.close()

    def __exit__(self, *_):
        self.close()


def _with_values(place: int, rest: str) -> str:
    """The expression of a rest that first makes the values of its test, whose text `_run_rests` writes."""
    return f"(exec({VALUES}{place}), {rest})[1]"


def _assignment(names: Sequence[str], tree) -> str:
    """The statement that gives the values of a test their names."""
    trees = [tree] if len(names) == 1 else tree[1:]
    return "; ".join(f"{name} = {source(one)}" for name, one in zip(names, trees, strict=True))


def result(name: str, reason: str | None = None, message: str | None = None) -> dict:
    """The evidence of one test, which passed if there is no reason."""
    row = {"name": name, "passed": reason is None, "reason": reason, "message": message}
    return {key: value for key, value in row.items() if value is not None}
