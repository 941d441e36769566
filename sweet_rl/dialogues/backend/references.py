"""What the reference solution of a task gives: the expected values of its hidden tests.

They come from warm processes that no answer ever runs in, so nothing that an answer can read has ever held them.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

from sweet_rl.dialogues.backend.calls import prelude, read_tests
from sweet_rl.dialogues.backend.extract_code import function_name, imported_names
from sweet_rl.runs.records import Task
from sweet_rl.sandbox.sandbox import Outcome, pack_tests
from sweet_rl.sandbox.values import decode, same

# Code with one of these words may give another result each time: such a reference is run more often.
CHANCE = re.compile(
    r"\b(random|rand\w*|shuffle|choice|sample|uuid\w*|secrets|time|now|today|perf_counter|hash|id|set|frozenset|getpid"
    r"|urandom|object|globals|locals)\b|\{\s*['\"][^:{}]*\}|\{[^:{}]*\bfor\b"
)
NO_TESTS = "the task has no test cases"
CACHED_REFERENCES = 20_000
# The text of an equal value cannot be so much longer than the reference's: longer ones are not even read. The text of
# 10**308 is 44 times as long as that of 1e308.
MAX_LONGER_BYTES, MAX_TIMES_LONGER = 1 << 16, 64


@dataclass
class Reference:
    """What is known of a task.

    Attributes:
        function: Name of the function that the answer has to define; "" if unknown.
        literals: Text of the literal that each test compares its call with, by its name; None if it compares none.
        called: Names of all that the tests call.
        packed: The calls and their prelude, for the sandbox. The prelude holds the imports and constants of the
            reference that the arguments name. No other constant may be in the answer's process.
        imports: Modules that the prelude imports.
        results: Texts of the values of the calls; None for a call that gives none (released rules only). Empty until
            the reference has run.
        ungradable: Reason why no answer can be graded against it.
    """

    function: str
    literals: dict[str, bytes | None] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)
    packed: bytes = b""
    imports: set[str] = field(default_factory=set)
    results: Sequence[bytes | None] = ()
    ungradable: str | None = None

    @cached_property
    def trees(self) -> list:
        """The values of the calls as trees; they are decoded when the first value differs."""
        return [None if text is None else decode(text) for text in self.results]

    @property
    def longest(self) -> int:
        """The number of bytes of the longest text that may still be an equal value."""
        return MAX_LONGER_BYTES + MAX_TIMES_LONGER * max(len(text or b"") for text in self.results)


def read_reference(task: Task) -> Reference:
    """What is known of a task before its reference has run."""
    reference = Reference(function_name(task.ground_truth, task.test_cases))
    try:
        tests = read_tests(task.test_cases, task.ground_truth)
    except ValueError as error:
        reference.ungradable = str(error)
        return reference
    if not tests:
        reference.ungradable = NO_TESTS
    reference.literals = {name: test.literal for name, test in tests.items()}
    reference.called = {test.function for test in tests.values()}
    needed = prelude(task.ground_truth, {name for test in tests.values() for name in test.names})
    code = compile(needed, "prelude", "exec", dont_inherit=True)
    reference.packed = pack_tests([test.code for test in tests.values()], code)
    reference.imports = imported_names(needed)
    return reference


def run_reference(task: Task, run: Callable[[Reference, int], list[Outcome]]) -> Reference:
    """Run the reference under different hash seeds. Values that differ make the task ungradable.

    Args:
        task: The task.
        run: Function that runs the reference's own code on the tests under a hash seed.
    """
    reference = read_reference(task)
    if reference.ungradable:
        return reference
    for seed in [0, 1, 2, 3, 0, 1] if CHANCE.search(task.ground_truth) else [0, 1]:
        texts: list[bytes] = []
        for name, (reason, content) in zip(reference.literals, run(reference, seed), strict=True):
            if reason != "value":
                reference.ungradable = f"the reference fails {name}: {reason}: {content!s}"
                return reference
            texts.append(cast(bytes, content))
        reference.results = reference.results or texts
        for number, (name, text) in enumerate(zip(reference.literals, texts, strict=True)):
            if text != reference.results[number] and not same(reference.trees[number], decode(text)):
                reference.ungradable = f"the reference gives different results for {name} on two runs"
                return reference
    return reference


class References:
    """The references of tasks, each computed once and kept by its content. Several threads may ask for them.

    Args:
        compute: Function that computes the reference of a task.
    """

    def __init__(self, compute: Callable[[Task], Reference]):
        self._compute = compute
        self._known: OrderedDict[tuple, Future[Reference]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, task: Task) -> Reference:
        """What the reference of a task gives."""
        key = (task.ground_truth, *task.test_cases.items())
        with self._lock:
            known = self._known.get(key)
            future: Future[Reference] = Future() if known is None else known
            if known is None:
                self._known[key] = future
                if len(self._known) > CACHED_REFERENCES:
                    self._known.popitem(last=False)
        if known is None:
            try:
                future.set_result(self._compute(task))
            except BaseException as error:
                future.set_exception(error)
            if future.exception():
                with self._lock:
                    self._known.pop(key, None)
        return future.result()
