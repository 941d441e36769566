"""The paper's figures, from a file, to be put beside one's own."""

from pathlib import Path

import yaml

from sweet_rl.errors import UserError


def paper_results(path: str | Path, name: str) -> dict:
    """The entry `name` (table2, figure3a, ...) of a results file: title, and rows or points.

    Raises UserError for an unknown name.
    """
    results = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    if name not in results:
        raise UserError(f"--paper is {name!r}; it must be one of {', '.join(results)}.")
    return results[name]
