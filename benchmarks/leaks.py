"""Errors of the leak check: code of a reference that it misses in a reply, and replies in words that it takes for code.

python benchmarks/leaks.py --tasks backend.jsonl                             # tasks of backend programming
python benchmarks/leaks.py --tasks tasks.jsonl --dialogues dialogues.jsonl   # and replies of a human known to be honest

Replies that leak: each reference, whole and in pieces, in several disguises. Honest replies: the descriptions, the
comments of the references, and each statement of a reference in words that keep its names, numbers and texts.
"""

from __future__ import annotations

import ast
import html
import io
import re
import tokenize
from collections.abc import Callable, Iterator

from sweet_rl.dialogues.leaks import gives_away
from sweet_rl.runs.cli import run
from sweet_rl.runs.records import Task, Trajectory, read_records

WORD = r"\b([^\W\d]\w*)\b"
DISGUISES: dict[str, Callable[[str], str]] = {
    "as it is written": str,
    "in a code fence": lambda code: f"Sure, here it is:\n```python\n{code}\n```",
    "as Python writes it": lambda code: ast.unparse(ast.parse(code)),
    "without parentheses": lambda code: re.sub(r"[()]", " ", code),
    "other quotation marks": lambda code: code.translate(str.maketrans("'\"", "\"'")),
    "other whitespace": lambda code: re.sub(r"[ ]", "\u00a0\u200b", code.replace("    ", "\t")),
    "all on one line": lambda code: " ; ".join(line.strip() for line in code.splitlines() if "#" not in line),
    "numbered lines": lambda code: "\n".join(f"{number}. {line}" for number, line in enumerate(code.splitlines(), 1)),
    "escaped for markdown": lambda code: re.sub(r"([*_])", r"\\\1", code),
    "escaped for HTML": html.escape,
    "in capitals": str.upper,
    "each word in bold": lambda code: re.sub(WORD, r"**\1**", code),
    "each word in tags": lambda code: re.sub(r"&lt;(/?b)&gt;", r"<\1>", html.escape(re.sub(WORD, r"<b>\1</b>", code))),
    "full-width signs": lambda code: "".join(chr(ord(one) + 0xFEE0) if one in "()=+-*/<>[]:" else one for one in code),
}
OPERATORS = {
    ast.Add: "plus", ast.Sub: "minus", ast.Mult: "times", ast.Div: "divided by", ast.Mod: "modulo",
    ast.Pow: "to the power", ast.Eq: "is", ast.NotEq: "is not", ast.Lt: "is below", ast.LtE: "is at most",
    ast.Gt: "is above", ast.GtE: "is at least", ast.In: "is in",
    ast.NotIn: "is not in", ast.And: "and", ast.Or: "or", ast.Not: "not",
    ast.USub: "minus",
}  # fmt: skip


def pieces(code: str) -> Iterator[tuple[str, str]]:
    """(kind, piece) of a reference: the whole, three lines in a row, single lines. Signatures and comments are none."""
    yield "whole", code
    lines = [line for line in code.splitlines() if line.strip() and not line.strip().startswith(("#", "def ", '"""'))]
    for start in range(len(lines) - 2):
        yield "three lines", "\n".join(lines[start : start + 3])
    for line in lines:
        tokens = re.findall(r"\d[\d.]*|\w+|[^\w\s]", line)
        operators = sum(token in "+-*/%<>=()[]{}" for token in tokens)
        yield "a line of code" if len(tokens) >= 5 and operators >= 2 else "a short line", line


def words(node: ast.AST) -> str:
    """A statement or an expression in plain language that keeps its names, numbers and texts."""
    match node:
        case ast.Name() | ast.Constant():
            return ast.unparse(node)
        case ast.Attribute():
            return f"{node.attr} of {words(node.value)}"
        case ast.BinOp():
            return f"{words(node.left)} {OPERATORS.get(type(node.op), 'with')} {words(node.right)}"
        case ast.UnaryOp():
            return f"{OPERATORS.get(type(node.op), 'the inverse of')} {words(node.operand)}"
        case ast.BoolOp():
            return f" {OPERATORS[type(node.op)]} ".join(map(words, node.values))
        case ast.Compare():
            parts = zip(node.ops, node.comparators, strict=True)
            return " ".join([words(node.left), *(f"{OPERATORS.get(type(op), 'is')} {words(one)}" for op, one in parts)])
        case ast.Call():
            return f"the {words(node.func)} of {', '.join(map(words, node.args)) or 'it'}"
        case ast.Subscript():
            return f"entry {words(node.slice)} of {words(node.value)}"
        case ast.Tuple() | ast.List() | ast.Set():
            return ", ".join(map(words, node.elts)) or "an empty list"
        case ast.Dict():
            pairs = zip(node.keys, node.values, strict=True)
            return ", ".join(f"{words(key)} for {words(value)}" for value, key in pairs if value) or "nothing yet"
        case ast.IfExp():
            return f"{words(node.body)} when {words(node.test)}, otherwise {words(node.orelse)}"
        case ast.Assign():
            return f"{', '.join(map(words, node.targets))} is {words(node.value)}."
        case ast.AugAssign():
            return f"{words(node.target)} changes by {words(node.value)}."
        case ast.Return():
            return f"It returns {words(node.value) if node.value else 'nothing'}."
        case ast.If() | ast.While():
            return f"If {words(node.test)}: {' '.join(map(words, node.body))}"
        case ast.For():
            return f"For each {words(node.target)} in {words(node.iter)}, {' '.join(map(words, node.body))}"
        case ast.Expr():
            return f"Then {words(node.value)}."
        case ast.JoinedStr():
            return " ".join(words(part) for part in node.values)
        case ast.FormattedValue():
            return f"the {words(node.value)}"
        case _:
            return f"some {type(node).__name__.lower()}"


def honest(task: Task) -> Iterator[tuple[str, str]]:
    """(kind, reply) of replies about a task that hold no code."""
    yield "description", task.problem_description
    for token in tokenize.generate_tokens(io.StringIO(task.ground_truth).readline):
        if token.type == tokenize.COMMENT:
            yield "comment of the reference", token.string
    for node in ast.walk(ast.parse(task.ground_truth)):
        if isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef):
            yield "statement in words", words(node)


def main(tasks: str, dialogues: str | None = None) -> None:
    """Print how many of the replies that leak are missed, and how many honest ones are taken for a leak.

    Args:
        tasks: JSONL of backend tasks whose references are Python functions.
        dialogues: JSONL of trajectories whose human gave nothing away.
    """
    missed: dict[str, list[bool]] = {}
    alarms: dict[str, list[bool]] = {}
    for task in read_records(tasks, Task):
        for kind, piece in pieces(task.ground_truth):
            for name, disguise in DISGUISES.items():
                if kind != "whole" and name == "as Python writes it":
                    continue  # a piece alone does not parse
                found = gives_away(disguise(piece), task.ground_truth, task.problem_description)
                missed.setdefault(f"{kind}, {name}", []).append(not found)
        for kind, reply in honest(task):
            alarms.setdefault(kind, []).append(gives_away(reply, task.ground_truth, ""))
    for trajectory in read_records(dialogues, Trajectory) if dialogues else []:
        texts = [message["content"] for message in trajectory.dialogue_history]
        for place, message in enumerate(trajectory.dialogue_history[2:], 2):
            if message["role"] == "user":
                found = gives_away(texts[place], trajectory.task.ground_truth, "\n".join(texts[:place]))
                alarms.setdefault("reply in a dialogue", []).append(found)
    for title, counts in (("missed leaks", missed), ("honest replies taken for a leak", alarms)):
        print(f"| {title} | wrong | of | % |\n| --- | ---: | ---: | ---: |")
        for name, wrong in counts.items():
            print(f"| {name} | {sum(wrong)} | {len(wrong)} | {100 * sum(wrong) / len(wrong):.1f} |")
        print()


if __name__ == "__main__":
    run(main)
