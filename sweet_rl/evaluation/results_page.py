"""The page of results: the tables and figures of dodo.py with their commands, seeds, versions and CPU time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sweet_rl.evaluation.budget import behind, cpu_seconds_of
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import read_manifest

VERSIONS = ("sweet_rl", "python", "torch", "transformers", "accelerate", "numpy")
SECTIONS = {
    "table2": "Table 2: the methods",
    "table3": "Table 3: the critic",
    "table4": "Table 4: a stronger agent from a weaker one's dialogues",
    "figure3a": "Figure 3a: the best of N candidates at every turn",
    "figure3b": "Figure 3b: the number of dialogues",
    "credit": "Credit assignment against the oracle",
}
MORE_FIGURES = {"table2": ["budget"], "table3": ["table3_lengths"]}


def results_page(folder: str | Path, command: str) -> str:
    """The page as Markdown. It shows the figures by their names, as files beside it.

    Args:
        folder: Folder of the results.
        command: Command line that makes a table, with {target} in the place of its name.

    Raises:
        UserError: The folder has no results, or what they were made with is not on this disk.
    """
    folder = Path(folder)
    graded = {name: _graded_files(folder / f"{name}.json") for name in SECTIONS if (folder / f"{name}.json").is_file()}
    if not graded:
        raise UserError(f"{folder} has no results ({', '.join(SECTIONS)}): make one with doit.")
    everything = sorted({path for paths in graded.values() for path in paths})
    versions = versions_text(read_manifest(path) or {} for path in everything)
    made = f"Made by the commands below, seeds {_seeds(everything)}, with {versions}."
    lines = ["# Results", "", made, ""]
    for name, paths in graded.items():
        lines += [f"## {SECTIONS[name]}", "", "```bash", command.format(target=name), "```", ""]
        lines += [(folder / f"{name}.md").read_text(encoding="utf-8").strip(), ""]
        for figure in [name, *MORE_FIGURES.get(name, [])]:
            if (folder / f"{figure}.png").is_file():
                lines += [f"![{SECTIONS[name]}, {figure}]({figure}.png)", ""]
        lines += [_cpu_time(paths), ""]
    return "\n".join(lines)


def _graded_files(path: Path) -> list[str]:
    """The files that a table was made from; a table of credit names them for each critic."""
    found = json.loads(path.read_text(encoding="utf-8"))
    files = found["files"].values() if "files" in found else [result["files"] for result in found.values()]
    return sorted({file for paths in files for file in paths})


def _cpu_time(outputs: Sequence[str]) -> str:
    steps = {path for output in outputs for path in behind(output)}
    seeds = len(_seeds(outputs).split(", "))
    minutes = sum(map(cpu_seconds_of, steps)) / 60 / seeds
    return f"All steps behind it, evaluation included: {minutes:.1f} CPU minutes per seed ({seeds} seeds)."


def _seeds(outputs: Iterable[str]) -> str:
    found = {part[4:] for path in outputs for part in Path(path).parts if part[:4] == "seed" and part[4:].isdigit()}
    return ", ".join(sorted(found, key=int)) or "not named"


def versions_text(manifests: Iterable[Mapping[str, Any]]) -> str:
    """The versions of VERSIONS that the manifests name; if they differ, all of them."""
    found: dict[str, dict[str, None]] = {name: {} for name in VERSIONS}
    for manifest in manifests:
        for name, version in manifest.get("versions", {}).items():
            if name in found:
                found[name][str(version)] = None
    return ", ".join(f"{name} {' and '.join(versions)}" for name, versions in found.items() if versions)
