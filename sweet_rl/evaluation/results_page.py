"""The page of results: tables and figures of reproduce.sh with their commands, seeds, versions and times."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sweet_rl.errors import UserError
from sweet_rl.evaluation.budget import TIMES, behind, find_times
from sweet_rl.pipeline.timed import first_successes, read_times
from sweet_rl.runs.manifest import read_manifest

VERSIONS = ("sweet_rl", "python", "torch", "transformers", "accelerate", "numpy")


@dataclass(frozen=True)
class Section:
    """One target of reproduce.sh: its heading, tables (name.md) and figures (name.png)."""

    target: str
    heading: str
    tables: tuple[str, ...]
    figures: tuple[str, ...]


SECTIONS = (
    Section("table2", "Table 2: the methods", ("table2",), ("table2", "budget")),
    Section("table3", "Table 3: the critic", ("table3",), ("table3", "table3_lengths")),
    Section("table4", "Table 4: a stronger agent from a weaker one's dialogues", ("table4",), ("table4",)),
    Section("figure3a", "Figure 3a: the best of N candidates at every turn", ("figure3a",), ("figure3a",)),
    Section("figure3b", "Figure 3b: the number of dialogues", ("figure3b",), ("figure3b",)),
    Section("credit", "Credit assignment against the oracle", ("credit",), ("credit",)),
    Section(
        "credit_study",
        "A study of credit: every critic against the oracle, and the policies of four",
        ("credit_study", "credit_study_policies"),
        ("credit_study", "credit_study_policies"),
    ),
    Section("online", "Success against dialogues, collected in rounds", ("online",), ("online",)),
    Section("pages", "Web pages", ("pages", "pages_credit"), ("pages", "pages_credit")),
)


def results_page(folder: str | Path, command: str) -> tuple[str, list[Path]]:
    """The page as Markdown, and the files that it shows.

    Args:
        folder: results folder of reproduce.sh.
        command: command line of reproduce.sh, with {target} and {seeds} (their number) to be filled in.

    Raises:
        UserError: no target has results in the folder.
    """
    folder = Path(folder)
    sections = [section for section in SECTIONS if (folder / f"{section.target}.json").is_file()]
    if not sections:
        raise UserError(f"{folder} holds no results ({', '.join(s.target for s in SECTIONS)}.json): run reproduce.sh.")
    parts, shown = [], []
    for section in sections:
        graded = _graded_files(folder / f"{section.target}.json")
        steps = _steps(graded, folder)
        called = command.format(target=section.target, seeds=_number_of_seeds(graded))
        lines = [f"## {section.heading}", "", "```bash", called, "```", ""]
        for name in section.tables:
            lines += [(folder / f"{name}.md").read_text(encoding="utf-8").strip(), ""]
            made = [folder / f"{name}.{kind}" for kind in ("json", "md", "tex")]
            shown += [file for file in made if file.is_file()]
        for name in section.figures:
            if (folder / f"{name}.png").is_file():
                lines += [f"![{section.heading}, {name}]({name}.png)", ""]
                shown += [folder / f"{name}.png", folder / f"{name}.svg"]
        lines.append(_spent(graded, steps))
        parts.append("\n".join(lines))
    if (folder / "settings.md").is_file():
        called = command.partition(" --seeds")[0].format(target="settings")
        log = (folder / "settings.md").read_text(encoding="utf-8").strip()
        parts.append("\n".join(["## Settings tried for each method", "", "```bash", called, "```", "", log]))
    names = ("settings.json", "settings.md", "test_ledger.jsonl")
    shown += [folder / name for name in names if (folder / name).is_file()]
    everything = [path for section in sections for path in _graded_files(folder / f"{section.target}.json")]
    steps = _steps(everything, folder)
    made = f"Made by the commands below, seeds {_seeds(everything)}, with {_versions(everything)}."
    return "\n".join(["# Results", "", made, "", "\n\n".join(parts), "", *_times_table(steps), ""]), shown


def _graded_files(path: Path) -> list[str]:
    """The files that a target's figures were made from; credit figures name them per critic."""
    found = json.loads(path.read_text(encoding="utf-8"))
    files = found["files"].values() if "files" in found else [result["files"] for result in found.values()]
    return sorted({file for paths in files for file in paths})


def _steps(outputs: Sequence[str], folder: Path) -> list[dict]:
    """The rows of times.jsonl of every step behind the outputs, up to its first success."""
    made = {path for output in outputs for path in behind(output)}
    files = dict.fromkeys([*find_times(outputs), *[p for p in (folder.parent / TIMES,) if p.is_file()]])
    return [row for output, row in first_successes(read_times(files)) if output in made]


def _spent(outputs: Sequence[str], steps: Iterable[dict]) -> str:
    steps = list(steps)
    cpu, gpu = (sum(row[key] for row in steps) for key in ("cpu_seconds", "gpu_seconds"))
    seeds = _number_of_seeds(outputs)
    text = f"All steps behind it, evaluation included: {cpu / 60 / seeds:.1f} CPU minutes per seed"
    text += f", {gpu / 3600 / seeds:.1f} GPU hours per seed" if gpu else ""
    return f"{text} ({seeds} seed{'s' if seeds > 1 else ''})."


def _seeds(outputs: Iterable[str]) -> str:
    found = {part[4:] for path in outputs for part in Path(path).parts if part[:4] == "seed" and part[4:].isdigit()}
    return ", ".join(sorted(found, key=int)) or "not named"


def _number_of_seeds(outputs: Iterable[str]) -> int:
    return len(_seeds(outputs).split(", "))


def _versions(outputs: Sequence[str]) -> str:
    """The versions named in the manifests; if they differ, all are named."""
    found: dict[str, dict[str, None]] = {name: {} for name in VERSIONS}
    for output in outputs:
        for name, version in (read_manifest(output) or {}).get("versions", {}).items():
            if name in found:
                found[name][version] = None
    return ", ".join(f"{name} {' and '.join(versions)}" for name, versions in found.items() if versions)


def _times_table(steps: Sequence[dict]) -> list[str]:
    by_step: dict[str, list[dict]] = {}
    for row in steps:
        by_step.setdefault(row["step"], []).append(row)
    lines = ["## Times", "", "| step | runs | seconds each | CPU seconds each |", "| --- | ---: | ---: | ---: |"]
    for name, rows in by_step.items():
        runs = max(1, sum(row["status"] == 0 for row in rows))
        wall = sum(row["seconds"] for row in rows) / runs
        cpu = sum(row["cpu_seconds"] for row in rows) / runs
        lines.append(f"| {name} | {runs} | {wall:.0f} | {cpu:.0f} |")
    return lines
