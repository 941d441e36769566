"""Which tasks are like earlier ones: by their content, by the code of their reference, by their description."""

from __future__ import annotations

import ast
import re
from collections import Counter

from sweet_rl.runs.records import Task, content_id

ALIKE = 0.7  # share of common word trigrams from which on two descriptions are the same task
SAME_TASK = "the same task"
SAME_REFERENCE = "the same reference"
LIKE_DESCRIPTION = "nearly the same description"


class Duplicates:
    """The tasks so far, compared by their content, by their reference (of code: names and comments aside), and by word
    trigrams of the description."""

    def __init__(self) -> None:
        self._contents: dict[str, str] = {}
        self._references: dict[str, str] = {}
        self._by_trigram: dict[tuple[str, ...], list[int]] = {}
        self._sizes: list[int] = []
        self._ids: list[str] = []

    def like(self, task: Task) -> tuple[str, str] | None:
        """How a task is like an earlier one, and the id of that one; None if it is like none."""
        for kind, known, key in (
            (SAME_TASK, self._contents, _content(task)),
            (SAME_REFERENCE, self._references, _shape(task.ground_truth)),
        ):
            if key in known:
                return kind, known[key]
        trigrams = _trigrams(task.problem_description)
        common = Counter(number for trigram in trigrams for number in self._by_trigram.get(trigram, ()))
        for number, count in common.most_common():
            if count / (len(trigrams) + self._sizes[number] - count) >= ALIKE:
                return LIKE_DESCRIPTION, self._ids[number]
        return None

    def add(self, task: Task) -> bool:
        """Add a task. False, and nothing is added, if there is one like it."""
        if self.like(task) is not None:
            return False
        self._contents[_content(task)] = self._references[_shape(task.ground_truth)] = task.id
        trigrams = _trigrams(task.problem_description)
        for trigram in trigrams:
            self._by_trigram.setdefault(trigram, []).append(len(self._sizes))
        self._sizes.append(len(trigrams))
        self._ids.append(task.id)
        return True


def _content(task: Task) -> str:
    return content_id([task.problem_description, task.ground_truth, task.test_cases])


def _shape(reference: str) -> str:
    """The code without comments and docstrings, with its own names replaced by n0, n1, ...; of a text that is no
    Python, its words."""
    try:
        tree = ast.parse(reference)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return " ".join(reference.split())
    names: dict[str, str] = {}
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


def _trigrams(text: str) -> set[tuple[str, ...]]:
    text = text.partition("The signature of the function is:")[0]
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[start : start + 3]) for start in range(max(1, len(words) - 2))}
