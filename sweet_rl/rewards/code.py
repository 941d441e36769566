"""Grade Python answers: the reference and the answer run apart, their values are compared here.

    from sweet_rl.rewards.code import CodeGrader

    task = Task("t1", "Add one.", "def f(x):\n    return x + 1", {"test1": "f(1)"})
    with CodeGrader() as grader:
        grade = grader.grade(task, "```python\ndef f(x): return 1 + x\n```")
        print(grade.reward, grade.failure, grade.evidence["tests"])

The reference's results come from warm processes that no answer ever runs in, so that nothing an answer can read
has held them; `sandbox.py` says what holds on which system.
"""

import logging
import os
import re
import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from sweet_rl.errors import UserError
from sweet_rl.records import Task
from sweet_rl.rewards.base import Grade
from sweet_rl.rewards.extract import (
    call_prelude,
    code_candidates,
    function_name,
    imported_names,
)
from sweet_rl.sandbox.compiler import Compiled, Compiler
from sweet_rl.sandbox.modules import STANDARD_MODULES, modules_for
from sweet_rl.sandbox.sandbox import NO_RESULT, Job, Sandbox, SandboxUnavailable, available_level
from sweet_rl.sandbox.values import decode, preview, same

logger = logging.getLogger(__name__)

# Code with one of these words may give another result each time: such a reference is run more often.
CHANCE = re.compile(
    r"\b(random|rand\w*|shuffle|choice|sample|uuid\w*|secrets|time|now|today|perf_counter|hash|id|set|frozenset|getpid"
    r"|urandom|object|globals|locals)\b|\{\s*['\"][^:{}]*\}|\{[^:{}]*\bfor\b"
)
CACHED_REFERENCES = 20_000
# A value that is equal cannot be written at so much greater length: longer ones are not even read.
MAX_LONGER_BYTES, MAX_TIMES_LONGER = 1 << 16, 30
CHUNK = 8  # answers that a worker takes at once, so that they are compiled together
NO_MODULE = re.compile(r"No module named '([\w.]+)'")
LACKS_A_MODULE = ("ModuleNotFoundError", "ImportError", "LookupError: unknown encoding")


@dataclass
class Reference:
    """What is known of a task: the reference's results as texts and, once a text differs, as trees."""

    function: str
    prelude: str
    results: list[bytes] | None = None
    ungradable: str | None = None
    calls: bytes = b""
    compiled_prelude: bytes = Job.prelude
    trees: list | None = None

    @property
    def longest(self) -> int:
        """Bytes of the longest text that may still be one of the results."""
        return MAX_LONGER_BYTES + MAX_TIMES_LONGER * max(len(text or b"") for text in self.results)

    def tree(self, number: int):
        if self.trees is None:
            self.trees = [decode(text) for text in self.results]
        return self.trees[number]


class CodeGrader:
    """Grades answers against reference solutions; a context manager that owns the sandboxes.

    timeout: CPU seconds a test may use, three times as long by the clock, and at least a second; memory_mb: memory
    an answer may use beyond the interpreter's; workers: answers graded at once (None: two a core, so that
    none is idle while a process is forked); sandbox: auto | strict |
    seccomp | limits. `level` says which level is active, `weaker_because` why not a stronger one.
    Raises SandboxUnavailable when the asked level cannot be had.
    """

    scope, rules = "module", "sweet_rl"

    def __init__(self, timeout: float = 1.0, memory_mb: int = 256, workers: int | None = None, sandbox: str = "auto"):
        if timeout <= 0 or memory_mb <= 0 or (workers is not None and workers <= 0):
            raise UserError(
                f"timeout ({timeout}), memory_mb ({memory_mb}) and workers ({workers}) must be more than 0."
            )
        self.timeout, self.memory_mb = timeout, memory_mb
        self.workers = workers or 2 * (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)
        self.level, self.weaker_because = available_level(sandbox)
        self._compiler = Compiler(self.level, timeout, memory_mb)
        self._idle: OrderedDict[tuple, list[Sandbox]] = OrderedDict()
        self._not_loaded: dict[tuple, tuple] = {}  # modules that cannot be loaded together -> those to load instead
        self._references: OrderedDict[tuple, Future] = OrderedDict()
        self._lock = threading.Lock()
        # Every reference runs in two kinds of processes: of each kind half as many as there are cores.
        self._reference_turns: defaultdict[tuple, threading.Semaphore] = defaultdict(
            lambda: threading.Semaphore(max(1, self.workers // 4))
        )
        self._closed = False

    def describe(self) -> str:
        """One line for people: the active level, and why it is not a stronger one."""
        note = f" ({self.weaker_because})" if self.weaker_because else ""
        return f"sandbox level: {self.level}{note}"

    # ------------------------------------------------------------------------------------------------ grading

    def grade(self, task: Task, answer: str | None) -> Grade:
        """The grade of one answer: the text as the agent gave it, fences and prose included; None if it gave none."""
        return self._grade_all([(task, answer)])[0]

    def grade_many(self, jobs: Iterable[tuple[Task, str | None]]) -> Iterator[Grade]:
        """The grades of (task, answer) pairs, in order, on all workers."""
        jobs = iter(jobs)
        with ThreadPoolExecutor(self.workers) as executor:
            waiting: deque = deque()
            try:
                while True:
                    rows = list(islice(jobs, CHUNK))
                    if rows:
                        waiting.append(executor.submit(self._grade_all, rows))
                    if not waiting:
                        return
                    if not rows or len(waiting) >= 4 * self.workers:
                        yield from waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    def ungradable(self, task: Task) -> str | None:
        """Why a task cannot be graded (its reference fails, hangs or answers differently each time), or None."""
        return self._reference(task.ground_truth, task.test_cases).ungradable

    def _grade_all(self, rows: list[tuple]) -> list[Grade]:
        """Grades of (task, answer) rows; what they have to compile is compiled at once."""
        facts = [self._reference(task.ground_truth, task.test_cases) for task, _ in rows]
        candidates = [
            code_candidates(answer, fact.function) if answer and not fact.ungradable else []
            for fact, (_, answer) in zip(facts, rows, strict=True)
        ]
        compiled = iter(self._compiler.modules([texts for texts in candidates if texts]))
        return [
            self._grade(fact, answer, list(task.test_cases), texts, next(compiled) if texts else None)
            for fact, (task, answer), texts in zip(facts, rows, candidates, strict=True)
        ]

    def _grade(self, facts: Reference, answer, names: list[str], texts: list[str], compiled) -> Grade:
        if facts.ungradable:
            return self._graded([], ungradable=facts.ungradable)
        if answer is None or not answer.strip():
            return self._all_failed(names, "no answer")
        if compiled is None:
            return self._all_failed(names, "no code", f"no definition of {facts.function or 'a function'} in the answer")
        if compiled.failure:
            return self._all_failed(names, *compiled.failure)
        outcomes = self._run("answer", 0, facts, compiled, "\n".join(texts), len(names))
        tests = [self._compare(name, facts, i, outcomes[i]) for i, name in enumerate(names)]
        return self._graded(tests)

    def _graded(self, tests: list[dict], ungradable: str | None = None) -> Grade:
        evidence = {"level": self.level, "tests": tests}
        if self.rules != "sweet_rl":
            evidence["rules"] = self.rules
        if ungradable:
            return Grade(None, ungradable=ungradable, evidence=evidence)
        failure = next((test["reason"] for test in tests if not test["passed"]), None)
        return Grade(sum(test["passed"] for test in tests) / len(tests), failure, evidence=evidence)

    def _all_failed(self, names: list[str], reason: str, message: str | None = None) -> Grade:
        return self._graded([result(name, reason, message) for name in names])

    def _compare(self, name: str, facts: Reference, number: int, outcome: tuple) -> dict:
        reason, content = outcome
        if reason != "value":
            return result(name, reason, content)
        if content == facts.results[number]:
            return result(name)
        try:
            got = decode(content)
        except ValueError:
            return result(name, *NO_RESULT)
        if same(facts.tree(number), got):
            return result(name)
        return result(name, "wrong value", f"expected {preview(facts.tree(number))}, got {preview(got)}"
        )

    # ----------------------------------------------------------------------------------------------- reference

    def _reference(self, reference: str, test_cases: dict[str, str]) -> Reference:
        """The reference's results, computed once and kept by content."""
        key = (reference, *test_cases.items())
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

    def _run_reference(self, reference: str, test_cases: dict[str, str]) -> Reference:
        facts = Reference(function_name(reference, test_cases), call_prelude(reference, test_cases))
        if not test_cases:
            facts.ungradable = "the task has no test cases"
            return facts
        texts = [[reference], [facts.prelude]] if facts.prelude else [[reference]]
        compiled, *prelude = self._compiler.modules(texts)
        calls = self._compiler.calls(list(test_cases.values()))
        for what, found in (("reference", compiled), ("test calls", calls)):
            if found.failure:
                first = f"{next(iter(test_cases))}: " if what == "reference" else ""
                facts.ungradable = f"the {what} fails {first}{': '.join(found.failure)}"
                return facts
        facts.calls = calls.code
        if prelude and not prelude[0].failure:
            facts.compiled_prelude = prelude[0].code
        seeds = [0, 1, 2, 3, 0, 1] if CHANCE.search(reference) else [0, 1]
        for seed in seeds:
            outcomes = self._run("reference", seed, facts, compiled, reference, len(test_cases))
            for name, (reason, content) in zip(test_cases, outcomes, strict=True):
                if reason != "value":
                    facts.ungradable = f"the reference fails {name}: {reason}: {content}"
                    return facts
            results = [content for _, content in outcomes]
            if facts.results is None:
                facts.results = results
            for number, (name, text) in enumerate(zip(test_cases, results, strict=True)):
                if text != facts.results[number] and not same(facts.tree(number), decode(text)):
                    facts.ungradable = f"the reference gives different results for {name} on two runs"
                    return facts
        return facts

    # ----------------------------------------------------------------------------------------------- sandboxes

    def _run(self, role: str, seed: int, facts: Reference, compiled: Compiled, text: str, tests: int) -> list[tuple]:
        """Run compiled code in a process with the modules that its text asks for; if it lacks one, with them all."""
        process = compiled.process
        if facts.prelude:  # the calls hand over objects of modules that it did not name itself
            process = "answer" if process == "shared" else "test"
        longest = None if role == "reference" else facts.longest
        job = Job(
            compiled.code, facts.calls, tests, facts.function, facts.compiled_prelude, process, self.scope, longest
        )  # fmt: skip
        names = imported_names(text) | imported_names(facts.prelude)
        modules = modules_for(names, text)
        outcomes = self._run_in((role, seed, modules), job)
        lacking = [c for reason, c in outcomes if reason == "exception" and c.startswith(LACKS_A_MODULE)]
        if lacking:
            everything = modules_for(names | {"os"} | {name for c in lacking for name in NO_MODULE.findall(c)})
            if everything != modules:
                outcomes = self._run_in((role, seed, everything), job)
        return outcomes

    def _run_in(self, key: tuple, job: Job) -> list[tuple]:
        """Run a job in a warm process of its kind; one that has died is replaced, once.

        References wait for each other's processes once these fill the cores: another costs more to start than to
        wait for.
        """
        key = (*key[:2], self._not_loaded.get(key[2], key[2]))
        if key[0] == "reference":
            with self._lock:
                turn = self._reference_turns[key]
            with turn:
                return self._run_warm(key, job)
        return self._run_warm(key, job)

    def _run_warm(self, key: tuple, job: Job) -> list[tuple]:
        for attempt in (1, 2):
            try:
                sandbox = self._take(key, warm=attempt == 1)
            except SandboxUnavailable as error:  # a module that was loaded keeps its process from shutting itself in
                more = set(key[2]) - set(STANDARD_MODULES)
                if not more:
                    raise
                logger.warning("%s Code that imports %s has none of these.", error, ", ".join(sorted(more)))
                self._not_loaded[key[2]] = STANDARD_MODULES
                return self._run_warm((*key[:2], STANDARD_MODULES), job)
            try:
                outcomes = sandbox.run(job)
            except (EOFError, OSError):
                sandbox.close()
                if attempt == 2:
                    return [("exited", "the sandbox was ended while it ran this answer")] * job.tests
            except BaseException:
                sandbox.close()
                raise
            else:
                self._give_back(key, sandbox)
                return outcomes
        raise AssertionError("unreachable")

    def _take(self, key: tuple, warm: bool) -> Sandbox:
        """A warm process for (role, hash seed, modules): the role keeps references and answers apart."""
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
        """End every process of the grader, which cannot be used afterwards."""
        with self._lock:
            self._closed = True
            sandboxes = [sandbox for idle in self._idle.values() for sandbox in idle]
            self._idle.clear()
        self._compiler.close()
        for sandbox in sandboxes:
            sandbox.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def result(name: str, reason: str | None = None, message: str | None = None) -> dict:
    """The evidence of one test: passed without a reason."""
    row = {"name": name, "passed": reason is None, "reason": reason, "message": message}
    return {key: value for key, value in row.items() if value is not None}
