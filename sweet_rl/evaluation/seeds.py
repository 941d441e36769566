"""The files of a comparison: runs by name, each with a file per seed, none of which is a copy of another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

from sweet_rl.evaluation.graded_file import GradedFile
from sweet_rl.runs.errors import UserError

COPIED = 0.95  # share of the shorter file's rows


def parse_runs(runs: dict | str) -> dict[str, list[str]]:
    """Files by run name. Raises UserError for a name without files and one given twice."""
    if isinstance(runs, str):
        items = [item.strip() for item in runs.split(",") if item.strip()]
        pairs = [item.partition("=") if "=" in item else (_run_name(item), "=", item) for item in items]
        entries = [(name.strip(), files.split("+")) for name, _, files in pairs]
    else:
        entries = [(str(name), [files] if isinstance(files, str) else list(files)) for name, files in runs.items()]
    parsed: dict[str, list[str]] = {}
    for name, files in entries:
        files = [file.strip() for file in files if file.strip()]
        if not name or not files or name in parsed:
            raise UserError(f"--runs: expected name=file[+file...] with each name once, found {name!r}: {files}.")
        parsed[name] = files
    if not parsed:
        raise UserError("--runs is empty; expected name=file[+file...], separated by commas.")
    return parsed


def check_seeds(runs: Mapping[str, Sequence[GradedFile]]) -> None:
    """Raise UserError if two files of a run hold the same dialogues, as `refuse_copies` counts them."""
    for files in runs.values():
        if len(files) > 1:
            refuse_copies([(file.path, file.dialogues) for file in files])


def refuse_copies(contents: Sequence[tuple[str, Iterable[str]]]) -> None:
    """Raise UserError if two files share COPIED of the shorter one's rows: they are copies or parts of one file.

    Seeds of an honest run may have a few short dialogues in common.

    Args:
        contents: (path, hashes of the rows) of each file, whatever the order of the rows.
    """
    counts = [(path, Counter(rows)) for path, rows in contents]
    for (one, rows), (other, others) in combinations(counts, 2):
        shared, fewest = (rows & others).total(), min(rows.total(), others.total())
        if shared >= COPIED * fewest:
            raise UserError(
                f"{one} and {other} hold the same, so they are one seed and not two ({shared} of {fewest} rows). Give "
                "each file once."
            )


def _run_name(path: str) -> str:
    """The name of a run whose file has none: sweet.graded.jsonl is sweet."""
    return Path(path).name.removesuffix(".jsonl").removesuffix(".graded")
