"""New ColBench-style backend tasks from a text corpus: a language model proposes, and what does not hold is dropped.

A proposal becomes a task if it reads as one (description, reference, test calls), its reference runs in the sandbox and
gives the same results again, its tests tell the reference from trivial functions, and it is like no task before it.
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

from sweet_rl.errors import UserError
from sweet_rl.humans.leaks import gives_away
from sweet_rl.records import Task, seed_for
from sweet_rl.rewards.code import CodeGrader

LONGEST_REFERENCE = 50  # lines (PAPER, ColBench)
ALIKE = 0.7  # share of word runs in common above which two descriptions are the same task
RUN = 3  # words
TRIVIAL = ("None", "True", "False", "0", "1", "''", "[]", "{}", "a[0] if a else None", "a[-1] if a else None")


class Dropped(Exception):
    """Why a proposal is no task; its text is one of few, to be counted."""


@dataclass(frozen=True)
class Passages:
    """Pieces of a corpus of about `size` characters, drawn by seed: the same number and seed give the same piece."""

    texts: Sequence[str]
    size: int = 1500

    def draw(self, number: int, seed: int) -> str:
        chance = random.Random(seed_for(seed, "passage", number))
        text = chance.choices(self.texts, weights=[len(text) for text in self.texts])[0]
        start = chance.randrange(max(1, len(text) - self.size))
        piece = text[start : start + self.size]
        return piece[piece.find(" ") + 1 :] if start else piece

    @classmethod
    def read(cls, path: str | Path, field: str = "text") -> Passages:
        """The texts of a file, or of all .txt, .md and .jsonl files below a folder. A JSONL file's texts are in
        `field`. Raises UserError if there are none."""
        path = Path(path)
        files = sorted(p for p in path.rglob("*") if p.suffix in (".txt", ".md", ".jsonl")) if path.is_dir() else [path]
        texts = [text for file in files for text in _texts(file, field) if text.strip()]
        if not texts:
            raise UserError(f"{path} holds no text. A corpus is a text file, a JSONL file, or a folder of these.")
        return cls(texts)


def propose(reply: str, num_tests: int) -> Task:
    """The task in a model's reply. Raises Dropped."""
    fields = _json_object(reply)
    description, reference, calls = (fields.get(name) for name in ("description", "reference", "tests"))
    if not all(isinstance(text, str) and text.strip() for text in (description, reference)):
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
    """Runs the reference and trivial functions in the sandbox. Raises Dropped."""
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
    """Functions that know nothing of the task: constants, an argument handed back, and the reference's result for the
    first test, whatever is asked."""
    for value in TRIVIAL:
        yield f"def {name}(*a, **k):\n    return {value}\n"
    first = next(iter(task.test_cases.values()))
    yield f"{task.ground_truth}\n_reference = {name}\n\n\ndef {name}(*a, **k):\n    return {_renamed(first, name)}\n"


class Duplicates:
    """Tasks seen so far: told by their code, whatever its names and comments, and by word runs of the description."""

    def __init__(self) -> None:
        self._codes: set[str] = set()
        self._by_run: dict[tuple[str, ...], list[int]] = {}
        self._sizes: list[int] = []

    def add(self, task: Task) -> bool:
        """Adds the task; False if one like it is there already."""
        code, runs = _shape(task.ground_truth), _word_runs(task.problem_description)
        common = Counter(number for run in runs for number in self._by_run.get(run, ()))
        alike = any(n / (len(runs) + self._sizes[number] - n) >= ALIKE for number, n in common.items())
        if alike or code in self._codes:
            return False
        self._codes.add(code)
        for run in runs:
            self._by_run.setdefault(run, []).append(len(self._sizes))
        self._sizes.append(len(runs))
        return True


def select(
    candidates: Iterable[dict], known: Iterable[Task] = (), limit: int | None = None
) -> tuple[list[Task], Counter]:
    """The tasks among candidate records, in the order of their numbers and at most `limit`, and how many were dropped
    for which reason. `known` tasks (a test set) count as seen. The order of `candidates` does not matter."""
    seen, tasks, reasons = Duplicates(), [], Counter()
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
    """The first JSON object in a reply, fences and prose around it left out. Raises Dropped."""
    decoder = json.JSONDecoder(strict=False)  # models break lines within texts
    for place in (match.start() for match in re.finditer(r"\{", reply)):
        try:
            found, _ = decoder.raw_decode(reply, place)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and "reference" in found:
            return found
    raise Dropped("no JSON object with a reference")


def _function(reference: str, calls: Sequence[str]) -> ast.FunctionDef:
    """The function that every call calls. Raises Dropped."""
    try:
        tree = ast.parse(reference)
        parsed = [ast.parse(call.strip(), mode="eval").body for call in calls]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Dropped("the reference or a test is no Python") from error
    if len(reference.strip().splitlines()) > LONGEST_REFERENCE:
        raise Dropped("the reference is too long")
    called = {one.func.id for one in parsed if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)}
    plain = all(isinstance(one, ast.Call) and isinstance(one.func, ast.Name) for one in parsed)
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and {node.name} == called]
    if not plain or not found:
        raise Dropped("a test does not call the reference's function")
    return found[-1]


def _renamed(call: str, name: str) -> str:
    return re.sub(rf"^\s*{re.escape(name)}\b", "_reference", call)


def _shape(code: str) -> str:
    """The code without comments, docstrings and the names that it chooses itself."""
    tree, names = ast.parse(code), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            if node.body and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant):
                node.body = node.body[1:] or [ast.Pass()]
            node.name = names.setdefault(node.name, f"n{len(names)}")
        elif isinstance(node, ast.arg):
            node.arg, node.annotation = names.setdefault(node.arg, f"n{len(names)}"), None
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.setdefault(node.id, f"n{len(names)}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return ast.dump(tree)


def _word_runs(text: str) -> set[tuple[str, ...]]:
    text = text.partition("The signature of the function is:")[0]
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[start : start + RUN]) for start in range(max(1, len(words) - RUN + 1))}


def _texts(file: Path, field: str) -> list[str]:
    try:
        content = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"the corpus {file} cannot be read: {error.strerror}. Give a file or a folder.") from error
    if file.suffix != ".jsonl":
        return [content]
    texts = []
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            texts.append(json.loads(line)[field])
        except (ValueError, KeyError, TypeError) as error:
            where = f"{file}, line {number}"
            raise UserError(f"{where}: no text in the field {field!r} (--text_field names it).") from error
        if not isinstance(texts[-1], str):
            raise UserError(f"{file}, line {number}: the field {field!r} is no text (--text_field names it).")
    return texts
