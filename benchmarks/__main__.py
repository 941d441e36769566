"""Figures of speed and safety, each from a program of its own.

python -m benchmarks                    # the list
python -m benchmarks NAME --help
python -m benchmarks NAME [FLAGS]       # as python benchmarks/NAME.py [FLAGS]
"""

import ast
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
HELPERS = {"__main__", "attack_answers", "random_model"}
PROGRAMS = {path.stem: path for path in sorted(HERE.glob("*.py")) if path.stem not in HELPERS}


def first_line(path: Path) -> str:
    """The first line of a program's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


if __name__ == "__main__":
    name, flags = "".join(sys.argv[1:2]), sys.argv[2:]
    if name in PROGRAMS:
        os.execv(sys.executable, [sys.executable, str(PROGRAMS[name]), *flags])
    print("\n".join(f"{name:16}{first_line(path)}" for name, path in PROGRAMS.items()))
    sys.exit(f"there is no benchmark {name!r}" if name else 0)
