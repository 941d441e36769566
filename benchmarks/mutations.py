"""How many random mutations of the method the tests catch.

    pip install cosmic-ray pytest-cov
    python benchmarks/mutations.py --count 200 --output_path mutants.jsonl
    python benchmarks/mutations.py --mutants mutants.jsonl --tests FOLDER --output_path again.jsonl

Each mutant is one change by an operator of cosmic-ray at one place: another operator, comparison, number or keyword, a
loop that does not run. The place is drawn first, with the same chance for every place, then the operator. The tests run
once with coverage, in a copy of the tree; a mutant is then tried with the tests that run its line, until one fails, and
with the tests of its room if the line runs at import. The second command tries the same mutants of this tree's library
with the tests of another tree, which is how two versions of the tests are compared.

Left out because they change nothing: changes of `|`, which stands in annotations such as `int | None`; those between
`==` and `is` where one side is None or a short text; and those in annotations, docstrings and `__all__`. What still
survives is printed as a diff, for a person to say whether it changes an output.
"""

from __future__ import annotations

import ast
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from difflib import unified_diff
from multiprocessing import get_context
from pathlib import Path

from cosmic_ray.ast import Visitor, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from coverage.numbits import numbits_to_nums

from sweet_rl.runs.cli import run

ROOT = Path(__file__).parents[1]
ROOMS = "method,training,models/log_probs,models/texts,dialogues,runs/records,evaluation"
LEFT_OUT = ("BitOr", "VariableInserter", "VariableReplacer", "RemoveDecorator", "NoOp")
THE_SAME = ("_Eq_Is", "_Is_Eq", "_NotEq_IsNot", "_IsNot_NotEq")  # ends of their names
OURS = ("sweet_rl", "scripts", "visualizers", "tests", "lab", "benchmarks", "conftest")
HEAVY = ("torch", "transformers", "numpy", "pytest")  # imported once, before the forks
NOT_COPIED = ".git", ".venv*", "outputs", "runs"  # of the root: sweet_rl/runs is a room


class _Places(Visitor):
    """Collects the positions of one operator in a file."""

    def __init__(self, operator) -> None:
        self.operator, self.found = operator, []

    def visit(self, node):
        self.found += [start for start, _ in self.operator.mutation_positions(node)]
        return node


def mutants_of(path: Path) -> dict[tuple[int, int], list[dict]]:
    """All mutants of a file by the (line, column) that they change."""
    code = path.read_text(encoding="utf-8")
    tree, silent = get_ast(code), _lines_without_effect(code)
    by_place: dict[tuple[int, int], list[dict]] = {}
    for name in operator_names():
        if any(word in name for word in LEFT_OUT) or name.endswith(THE_SAME):
            continue
        places = _Places(get_operator(name)())
        places.walk(tree)
        for occurrence, place in enumerate(places.found):
            if place[0] not in silent:
                by_place.setdefault(place, []).append(
                    {"file": str(path.relative_to(ROOT)), "line": place[0], "operator": name, "occurrence": occurrence}
                )
    return by_place


def _lines_without_effect(code: str) -> set[int]:
    """Lines of annotations without a value, docstrings and `__all__`."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(code)):
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        exported = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        if text or exported or (isinstance(node, ast.AnnAssign) and node.value is None):
            lines.update(range(node.lineno, node.end_lineno + 1))
    return lines


def tests_by_line(tree: Path, tests: Iterable[str], workers: int) -> dict[tuple[str, int], set[str]]:
    """Run the tests with coverage: the names of the tests, by (file, line) of the library. "" stands for an import."""
    data = tree / ".coverage"
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "--dist", "loadfile"]
    command += ["--cov=sweet_rl", "--cov-context=test", "--cov-report=", *tests]
    subprocess.run(command, cwd=tree, env=_environment(tree), check=False)
    found: dict[tuple[str, int], set[str]] = {}
    with sqlite3.connect(data) as database:
        names = dict(database.execute("select id, context from context"))
        files = dict(database.execute("select id, path from file"))
        for file, context, bits in database.execute("select file_id, context_id, numbits from line_bits"):
            for line in numbits_to_nums(bits):
                test = names[context].partition("|")[0]
                found.setdefault((os.path.relpath(files[file], tree), line), set()).add(test)
    return found


def copy_tree(tree: Path, tests: str) -> None:
    """Make `tree` a fresh copy of this tree, with the tests of another tree if one is named."""
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(ROOT, tree, ignore=_not_copied)
    if tests:
        shutil.rmtree(tree / "tests")
        shutil.copytree(Path(tests) / "tests", tree / "tests", ignore=_not_copied)


def _not_copied(folder: str, names: list[str]) -> set[str]:
    return shutil.ignore_patterns(*NOT_COPIED)(folder, names) if Path(folder) == ROOT else set()


def _environment(tree: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def passes(tree: Path, tests: list[str], timeout: float) -> bool:
    """Run tests in a fork of this process, which has imported the heavy packages, until one fails."""
    child = os.fork()
    if not child:
        try:
            os.setsid()
            silence = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(silence, stream)
            for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
                del sys.modules[name]
            os.environ.update(_environment(tree))
            os.chdir(tree)
            sys.path[:] = [str(tree), *(path for path in sys.path if path not in ("", str(ROOT)))]
            sys.dont_write_bytecode = True
            import pytest

            os._exit(int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *tests])))
        finally:
            os._exit(9)
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.05)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def try_mutants(tree: Path, jobs: Iterator[tuple[dict, list[str]]], other: str, timeout: float) -> Iterator[dict]:
    """Yield every mutant with `tests` (how many were tried), `caught`, and its `diff`.

    Each has a fresh copy of the tree, because a mutant may delete or write files there.
    """
    for name in HEAVY:
        __import__(name)
    for mutant, tests in jobs:
        copy_tree(tree, other)
        path = tree / mutant["file"]
        code = path.read_text(encoding="utf-8")
        changed = mutate_code(code, get_operator(mutant["operator"])(), mutant["occurrence"])
        lines = unified_diff(code.splitlines(True), changed.splitlines(True), mutant["file"], mutant["operator"], n=1)
        unit = [name for name in tests if name.startswith("tests/unit")]
        others = [name for name in tests if name not in unit]
        path.write_text(changed, encoding="utf-8")
        caught = any(not passes(tree, chosen, timeout) for chosen in (unit, others) if chosen)
        yield mutant | {"tests": len(tests), "caught": caught, "diff": "".join(lines)}


def _work(tree: Path, jobs, results, other: str, timeout: float) -> None:
    for result in try_mutants(tree, iter(jobs.get, None), other, timeout):
        results.put(result)


def _draw(count: int, rooms: str, seed: int) -> list[dict]:
    places = {
        (str(path), *place): found
        for room in rooms.split(",")
        for path in sorted((ROOT / "sweet_rl" / room).rglob("*.py"))
        for place, found in mutants_of(path).items()
    }
    draw = random.Random(seed)
    print(f"{count} of {len(places)} places in {rooms}", flush=True)
    return [draw.choice(places[place]) for place in draw.sample(sorted(places), count)]


def _chosen(mutant: Mapping, by_line: Mapping[tuple[str, int], set[str]], failing: set[str]) -> list[str]:
    """The tests of a mutant: those that run its line; those of its room if the line runs at import or never."""
    tests = sorted(by_line.get((mutant["file"], mutant["line"]), set()) - failing)
    return [name for name in tests if name] or [f"tests/unit/{Path(mutant['file']).parts[1]}"]


def main(
    output_path: str,
    count: int = 200,
    rooms: str = ROOMS,
    seed: int = 0,
    mutants: str = "",
    tests: str = "",
    folders: str = "tests/unit",
    workers: int = 2,
    timeout: float = 600.0,
) -> None:
    """Measure the share of random mutants that the tests catch.

    Args:
        output_path: The mutants with what became of them, JSONL.
        count: Number of mutants.
        rooms: Packages of sweet_rl, separated by commas.
        seed: Random seed of the draw.
        mutants: A file of an earlier call, whose mutants are tried again in place of a draw.
        tests: A tree whose `tests` are used in place of those of this tree.
        folders: Tests to use, separated by commas.
        workers: Mutants tested at the same time, each in its own copy of the tree.
        timeout: Seconds after which a test run counts as caught (an endless loop).
    """
    if mutants:
        drawn = [json.loads(line) for line in Path(mutants).read_text(encoding="utf-8").splitlines()]
    else:
        drawn = _draw(count, rooms, seed)
    context = get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        trees = [Path(folder) / str(number) for number in range(workers)]
        copy_tree(trees[0], tests)
        by_line = tests_by_line(trees[0], folders.split(","), workers)
        last = trees[0] / ".pytest_cache/v/cache/lastfailed"
        failing = set(json.loads(last.read_text(encoding="utf-8"))) if last.exists() else set()
        print(f"{len(set().union(*by_line.values()))} tests, {len(failing)} fail without a mutation", flush=True)
        jobs, results = context.Queue(), context.SimpleQueue()
        for tree in trees:
            context.Process(target=_work, args=(tree, jobs, results, tests, timeout)).start()
        for mutant in drawn:
            jobs.put((mutant, _chosen(mutant, by_line, failing)))
        for _ in trees:
            jobs.put(None)
        survivors = 0
        with open(output_path, "w", encoding="utf-8") as file:
            for number in range(1, len(drawn) + 1):
                result = results.get()
                survivors += not result["caught"]
                file.write(json.dumps(result) + "\n")
                file.flush()
                print(f"{number}: {'caught' if result['caught'] else 'SURVIVED'} ({result['tests']} tests)", flush=True)
                if not result["caught"]:
                    print(result["diff"], flush=True)
    print(f"caught {len(drawn) - survivors} of {len(drawn)} ({100 * (1 - survivors / len(drawn)):.1f} %)")


if __name__ == "__main__":
    run(main)
