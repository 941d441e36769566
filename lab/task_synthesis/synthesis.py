"""New backend tasks in the style of ColBench from a text corpus: a language model proposes, and checks decide.

A proposal becomes a task if it has a description, a reference solution and test calls; if the reference runs in the
sandbox and gives the same results on a second run; if no trivial function passes its tests; and if it is unlike all
earlier tasks.
"""

from __future__ import annotations

import ast
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.task_synthesis.duplicates import Duplicates
from sweet_rl.dialogues.backend.calls import read_tests
from sweet_rl.dialogues.backend.hidden_tests import CodeGrader
from sweet_rl.dialogues.leaks import gives_away
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, parse_row, seed_for

LONGEST_REFERENCE = 50  # lines (the paper, section on ColBench)
TRIVIAL = (
    "None",
    "True",
    "False",
    "0",
    "1",
    "-1",
    "0.0",
    "''",
    "[]",
    "{}",
    "a[0] if a else None",
    "a[-1] if a else None",
    "list(a)",
    "len(a[0])",
    "sum(a)",
    "max(a)",
)


class Dropped(Exception):
    """The reason for which a proposal is no task. There are few different texts, so that they can be counted."""


@dataclass(frozen=True)
class Passages:
    """Pieces of a corpus, drawn at random.

    Attributes:
        texts: Texts of the corpus.
        size: Number of characters of a piece.
    """

    texts: Sequence[str]
    size: int = 1500

    def draw(self, number: int, seed: int) -> str:
        """Piece `number`: the same for the same number and seed. Texts are drawn in proportion to their length."""
        chance = random.Random(seed_for(seed, "passage", number))
        text = chance.choices(self.texts, weights=[len(text) for text in self.texts])[0]
        start = chance.randrange(max(1, len(text) - self.size))
        piece = text[start : start + self.size]
        return piece[piece.find(" ") + 1 :] if start else piece

    @classmethod
    def read(cls, path: str | Path, field: str = "text") -> Passages:
        """The texts of a file, or of all .txt, .md and .jsonl files in a folder and its sub-folders.

        Args:
            path: File or folder.
            field: Field of a JSONL row that holds the text.

        Raises:
            UserError: No text, or a row without that field.
        """
        path = Path(path)
        files = sorted(p for p in path.rglob("*") if p.suffix in (".txt", ".md", ".jsonl")) if path.is_dir() else [path]
        texts = [text for file in files for text in _texts(file, field) if text.strip()]
        if not texts:
            raise UserError(f"{path} holds no text. A corpus is a text file, a JSONL file, or a folder of these.")
        return cls(texts)


def propose(reply: str, num_tests: int) -> Task:
    """The task in a model's reply: a JSON object with description, reference and tests. Raises Dropped."""
    fields = _json_object(reply)
    description, reference, calls = (fields.get(name) for name in ("description", "reference", "tests"))
    if not isinstance(description, str) or not isinstance(reference, str):
        raise Dropped("a field is missing or of the wrong type")
    if not description.strip() or not reference.strip():
        raise Dropped("a field is missing or of the wrong type")
    if not isinstance(calls, list) or not all(isinstance(call, str) for call in calls):
        raise Dropped("a field is missing or of the wrong type")
    if len(set(calls)) != num_tests or len(calls) != num_tests:
        raise Dropped("not the number of different tests asked for")
    function = _function(reference, calls)
    signature = f"def {function.name}({ast.unparse(function.args)})"
    if gives_away(description, reference, signature):
        raise Dropped("the description gives the reference away")
    return Task(
        problem_description=f"{description.strip()}\nThe signature of the function is: {signature}",
        ground_truth=reference.strip() + "\n",
        test_cases={f"test{number}": call.strip() for number, call in enumerate(calls, start=1)},
    )


def check(task: Task, grader: CodeGrader) -> None:
    """Run the reference and trivial functions in the sandbox. Raises Dropped if the task is not usable."""
    reason = grader.ungradable(task)
    if reason is not None:
        chance = "different" in reason
        raise Dropped("the reference gives other results on another run" if chance else "the reference fails")
    name = _function(task.ground_truth, list(task.test_cases.values())).name
    for answer in trivial_answers(task, name):
        grade = grader.grade(task, answer)
        if grade.machine:
            raise Dropped("the machine failed while the task was checked")
        if grade.reward == 1.0:
            raise Dropped("a trivial function passes the tests")


def trivial_answers(task: Task, name: str) -> Iterable[str]:
    """Functions that ignore what the task asks: constants, plain uses of the arguments, and the reference's result for
    the first test."""
    for value in TRIVIAL:
        yield f"def {name}(*a, **k):\n    return {value}\n"
    first = next(iter(task.test_cases.values()))
    yield f"{task.ground_truth}\n_reference = {name}\n\n\ndef {name}(*a, **k):\n    return {_renamed(first, name)}\n"


def select(
    candidates: Iterable[dict], known: Iterable[Task] = (), limit: int | None = None
) -> tuple[list[Task], Counter]:
    """Choose the tasks among all proposals.

    Args:
        candidates: Records {number, task or dropped}, in any order.
        known: Tasks that no chosen one may be like (a test set).
        limit: Largest number of tasks.

    Returns:
        The tasks in the order of their numbers, and the number of dropped proposals by reason.
    """
    seen = Duplicates()
    tasks: list[Task] = []
    reasons: Counter[str] = Counter()
    for task in known:
        seen.add(task)
    for row in sorted(candidates, key=lambda row: row["number"]):
        if row.get("task") is None:
            reasons[row["dropped"]] += 1
        elif not seen.add(task := Task.from_dict(row["task"])):
            reasons["like a task before it"] += 1
        elif limit is None or len(tasks) < limit:
            tasks.append(task)
    return tasks, reasons


def _json_object(reply: str) -> dict[str, Any]:
    """The first JSON object with a reference in a reply, without the text around it. Raises Dropped."""
    decoder = json.JSONDecoder(strict=False)  # models write line breaks inside strings
    for place in (match.start() for match in re.finditer(r"\{", reply)):
        try:
            found, _ = decoder.raw_decode(reply, place)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and "reference" in found:
            return found
    raise Dropped("no JSON object with a reference")


def _function(reference: str, calls: Sequence[str]) -> ast.FunctionDef:
    """The function that all test calls call. Raises Dropped."""
    try:
        tree = ast.parse(reference)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Dropped("the reference is no Python") from error
    if len(reference.strip().splitlines()) > LONGEST_REFERENCE:
        raise Dropped("the reference is too long")
    try:
        tests = read_tests({str(number): call for number, call in enumerate(calls)}, reference).values()
    except ValueError as error:
        raise Dropped("a test is no call of the reference's function") from error
    called = {test.function for test in tests}
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and {node.name} == called]
    if not found or any(test.literal is not None for test in tests):
        raise Dropped("a test is no call of the reference's function")
    return found[-1]


def _renamed(call: str, name: str) -> str:
    return re.sub(rf"^\s*{re.escape(name)}\b", "_reference", call)


def _texts(file: Path, field: str) -> list[str]:
    try:
        content = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"the corpus {file} cannot be read: {error.strerror}. Give a file or a folder.") from error
    if file.suffix != ".jsonl":
        return [content]
    texts = []
    for number, line in enumerate(content.split("\n"), start=1):  # a text may hold other line separators
        if line.strip():
            text = parse_row(line, f"{file}, line {number}").get(field)
            if not isinstance(text, str):
                raise UserError(f"{file}, line {number}: no text in the field {field!r} (--text_field names it).")
            texts.append(text)
    return texts
