"""Finds arguments whose documentation is no noun phrase but continues their name, as in `seed: of the bootstrap.`

python tests/lint/argument_docs.py sweet_rl scripts lab visualizers
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SECTION = re.compile(r"(Args|Attributes):$")
# "names: of the models", "seed, epoch: as in `draw`"
CONTINUES_ITS_NAME = re.compile(r"([\w*`, ]+): (of|those|that|as|from|in|at|on|by|to|for)\b")
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def problems(source: str) -> Iterator[tuple[int, str]]:
    """Yields line and name of each argument or attribute whose documentation continues its name."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, DOCUMENTED) or ast.get_docstring(node) is None:
            continue
        literal = node.body[0]
        entry_indent = None
        for offset, line in enumerate(inspect.cleandoc(ast.get_docstring(node, clean=False)).splitlines()):
            text = line.strip()
            indent = len(line) - len(line.lstrip())
            if SECTION.match(text):
                entry_indent = indent + 4
            elif text and entry_indent is not None and indent < entry_indent:
                entry_indent = None
            elif indent == entry_indent and (found := CONTINUES_ITS_NAME.match(text)):
                yield literal.lineno + offset, found[1]


def main(folders: list[str]) -> int:
    """Prints `file:line: name` for each problem in the Python files of `folders`; returns the exit status."""
    found = [
        f"{path}:{line}: {name}"
        for folder in folders
        for path in sorted(Path(folder).rglob("*.py"))
        for line, name in problems(path.read_text(encoding="utf-8"))
    ]
    if found:
        print(*found, sep="\n")
        print(f"{len(found)} arguments: write a complete noun phrase, as in 'seed: Random seed of the bootstrap.'")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
