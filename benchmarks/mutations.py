"""How many random mutations of the code the unit tests catch.

    pip install cosmic-ray
    python benchmarks/mutations.py --count 200

Each mutant is one change by an operator of cosmic-ray at one place: another operator, comparison, number or keyword, a
loop that does not run. The place is drawn first, with the same chance for every place, then the operator. The change is
made in a copy of the tree. The unit tests of the room run first, then all unit tests; a mutant that passes both has
survived and is printed as a diff. Two kinds of changes are left out because they change nothing: those of `|`, which
stands in annotations such as `int | None`, and those between `==` and `is`, where one side is None or a short text.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from queue import SimpleQueue

from cosmic_ray.ast import Visitor, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

from sweet_rl.cli import run

ROOT = Path(__file__).parents[1]
ROOMS = "credit,scoring,training,rollout,rewards,runs,analysis"
LEFT_OUT = ("BitOr", "VariableInserter", "VariableReplacer", "RemoveDecorator", "NoOp")
THE_SAME = ("_Eq_Is", "_Is_Eq", "_NotEq_IsNot", "_IsNot_NotEq")  # ends of their names


@dataclass(frozen=True)
class Mutant:
    file: str
    operator: str
    occurrence: int


class _Places(Visitor):
    """Counts the places of one operator in a file, with their position."""

    def __init__(self, operator) -> None:
        self.operator, self.found = operator, []

    def visit(self, node):
        self.found += [start for start, _ in self.operator.mutation_positions(node)]
        return node


def mutants(file: Path) -> dict[tuple, list[Mutant]]:
    """All mutants of a file by the position (line, column) that they change."""
    tree = get_ast(file.read_text(encoding="utf-8"))
    by_place: dict[tuple, list[Mutant]] = {}
    for name in operator_names():
        if any(word in name for word in LEFT_OUT) or name.endswith(THE_SAME):
            continue
        places = _Places(get_operator(name)())
        places.walk(tree)
        for occurrence, position in enumerate(places.found):
            by_place.setdefault((str(file), *position), []).append(
                Mutant(str(file.relative_to(ROOT)), name, occurrence)
            )
    return by_place


def caught(tree: Path, mutant: Mutant, timeout: float, all_tests: bool) -> tuple[str, str]:
    """(what caught the mutant: "room", "unit" or "", its diff). The file is restored."""
    path = tree / mutant.file
    code = path.read_text(encoding="utf-8")
    changed = mutate_code(code, get_operator(mutant.operator)(), mutant.occurrence)
    diff = "".join(unified_diff(code.splitlines(True), changed.splitlines(True), mutant.file, mutant.operator, n=1))
    room = Path(mutant.file).parts[1]
    try:
        path.write_text(changed, encoding="utf-8")
        for name, tests in (("room", f"tests/unit/{room}"), ("unit", "tests/unit"))[: 1 + all_tests]:
            if (tree / tests).exists() and not _passes(tree, tests, timeout):
                return name, diff
        return "", diff
    finally:
        path.write_text(code, encoding="utf-8")


def _passes(tree: Path, tests: str, timeout: float) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header", tests]
    environment = {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            ["env", *(f"{name}={value}" for name, value in environment.items()), *command],
            cwd=tree, capture_output=True, timeout=timeout,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main(
    count: int = 200,
    rooms: str = ROOMS,
    seed: int = 0,
    workers: int = 2,
    timeout: float = 600.0,
    all_tests: bool = True,
) -> None:
    """Measure the share of random mutants that the unit tests catch.

    Args:
        count: number of mutants.
        rooms: packages of sweet_rl, separated by commas.
        seed: of the draw.
        workers: mutants tested at the same time, each in its own copy of the tree.
        timeout: seconds after which a test run counts as caught (an endless loop).
        all_tests: run all unit tests on what the tests of the room did not catch. --noall_tests is a quick lower bound.
    """
    places: dict[tuple, list[Mutant]] = {}
    for room in rooms.split(","):
        for file in sorted((ROOT / "sweet_rl" / room).rglob("*.py")):
            places |= mutants(file)
    draw = random.Random(seed)
    chosen = [draw.choice(places[place]) for place in draw.sample(sorted(places), count)]
    print(f"{count} of {len(places)} places in {rooms}")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(workers):
            tree = Path(folder) / str(number)
            left_out = shutil.ignore_patterns(".git", ".venv*", "outputs", "__pycache__")
            shutil.copytree(ROOT, tree, ignore=left_out)
            trees.put(tree)

        def test(mutant: Mutant) -> tuple[str, str]:
            tree = trees.get()
            try:
                return caught(tree, mutant, timeout, all_tests)
            finally:
                trees.put(tree)

        survivors = 0
        for number, (by, diff) in enumerate(pool.map(test, chosen), start=1):
            survivors += not by
            print(f"{number}: {f'caught by {by}' if by else 'SURVIVED'}", flush=True)
            if not by:
                print(diff, flush=True)
    print(f"caught {count - survivors} of {count} ({100 * (count - survivors) / count:.1f} %)")


if __name__ == "__main__":
    run(main)
