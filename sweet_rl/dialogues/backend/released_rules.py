"""The released grader's rules, for comparison with its figures only. Answers are contained as everywhere.

Kept of the released grader: code is executed inside a function's scope, so top-level imports, helpers and recursion
raise NameError; an answer with a forbidden word scores 0; None never passes; floats must be equal to the last digit;
NaN, arrays and objects without `==` are never equal; of `f(1) == 3` only the truth is compared; a test whose reference
fails cannot be passed, and the task is gradable all the same.

Not kept: it ran in the grader's process (an exit ended the run, a lying `__eq__` passed), and on Python 3.13 and later
its scoping makes every answer fail. How it found the code in an answer is unknown; `extract_code.py` is used.
"""

from dataclasses import replace
from typing import cast

from sweet_rl.dialogues.backend.calls import HiddenTest
from sweet_rl.dialogues.backend.hidden_tests import CodeGrader, Reference, read_reference
from sweet_rl.dialogues.domain import Grade
from sweet_rl.runs.records import Task
from sweet_rl.sandbox.values import decode, same

FORBIDDEN_WORDS = ("print(", "write", "open(")


class PaperGrader(CodeGrader):
    """`CodeGrader` with the release's rules. The failure of an answer with a forbidden word is "banned word"."""

    scope, rules = "function", "paper"

    def describe(self) -> str:
        return f"{super().describe()}; scored by the release's rules, for comparison only"

    def _grade_code(self, reference: Reference, texts: list[str]) -> Grade:
        word = next((word for word in FORBIDDEN_WORDS if word in texts[0]), None)
        if word is not None:
            return self._all_failed(reference, "banned word", f"{word!r} is in the code")
        return super()._grade_code(reference, texts)

    def equal(self, expected, got, test: HiddenTest) -> bool:
        if test.literal is None:
            return expected is not None and same(expected, got, exact=True)
        literal = decode(test.literal)
        return same(expected, literal, exact=True) == same(got, literal, exact=True)

    def _run_reference(self, task: Task) -> Reference:
        """Run the reference once; a test that it fails has no result."""
        reference = read_reference(task)
        if reference.ungradable:
            return reference
        outcomes = self._run("reference", 0, reference, [task.ground_truth])
        values = [cast(bytes, content) if reason == "value" else None for reason, content in outcomes]
        return replace(reference, values=values)
