"""How well critics agree with an oracle, as tables in Markdown and figures in JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweet_rl.evaluation.statistics import interval_text
from sweet_rl.evaluation.table import Table
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import check_finished
from sweet_rl.runs.paths import check_paths
from sweet_rl.runs.texts import write_texts


def named_files(flag: str, text: str) -> dict[str, list[str]]:
    """Return the files of each name in `name=file[+file],...`, the value of a flag; they are its seeds.

    Raises:
        UserError: The text has another form, a name or a file of a name occurs twice, or a file is unfinished or
            changed.
    """
    parts = [entry.partition("=") for entry in text.split(",")] if text else []
    entries = [(name.strip(), path.strip()) for name, _, path in parts]
    named = dict(entries)
    if len(named) < len(entries) or not all(name and path for name, path in entries):
        raise UserError(f"--{flag} is {text!r}; expected name=file with each name once, several separated by commas.")
    files = {name: path.split("+") for name, path in named.items()}
    for name, paths in files.items():
        if len(set(paths)) < len(paths):
            raise UserError(f"--{flag}: the seeds of {name!r} are {paths}: give each file once.")
        for path in paths:
            check_finished(path)
    return files


@dataclass(frozen=True, kw_only=True)
class ReportSettings:
    """How agreement with an oracle is reported.

    Attributes:
        output_path: JSON file for the figures.
        markdown_path: Markdown file for the tables.
        seed: Random seed of the bootstrap.
        overwrite: Replace the outputs.
    """

    output_path: str | None = None
    markdown_path: str | None = None
    seed: int = 0
    overwrite: bool = False


def show_credit(results: Mapping[str, dict], report: ReportSettings, kinds: Sequence[str] = ()) -> None:
    """Write the figures and the tables, and print a line per critic and decision.

    Args:
        results: Results of `credit_accuracy` by critic.
        report: Files that are written.
        kinds: Critics of which each kind of pair is printed too.

    Raises:
        UserError: Both paths are the same, or a file exists and is not to be replaced.
    """
    check_paths([report.output_path, report.markdown_path])
    figures, tables = json.dumps(results, indent=2) + "\n", credit_markdown(results)
    outputs = {report.output_path: figures, report.markdown_path: tables}
    write_texts({path: text for path, text in outputs.items() if path is not None}, report.overwrite)
    width = max(map(len, results))
    for name in kinds:
        for kind, value in results[name]["by_kind"].items():
            print(f"{name:{width}}  {kind:24} {100 * value['accuracy']:5.1f} %  of {value['pairs']} pairs")
    for name, result in results.items():
        for group, value in result["groups"].items():
            if value["pairs"]:
                low, high = value["interval"]
                print(
                    f"{name:{width}}  {group}: {100 * value['accuracy']:.1f} % [{100 * low:.1f}, {100 * high:.1f}] of "
                    f"{value['pairs']} pairs"
                )


def credit_markdown(results: Mapping[str, dict]) -> str:
    """Markdown tables: a summary with a row per critic, best first, and one per decision with the accuracy by turn.

    The summary has the accuracy of each decision with its interval, the smallest of them, by which it is sorted, and,
    for a study, the flags of rank_best_of_n.py (`flags` of a result).
    """
    return "\n".join([_summary(results), "", *_by_turn(results)])


def _summary(results: Mapping[str, dict]) -> str:
    names = list(dict.fromkeys(name for result in results.values() for name in result["groups"]))
    with_flags = any("flags" in result for result in results.values())
    cells = [["critic", *(f"{name}, %" for name in names), "smallest, %", *["flags"] * with_flags]]
    for name, result in sorted(results.items(), key=lambda item: -item[1]["smallest"]):
        groups = [result["groups"].get(name, {"pairs": 0}) for name in names]
        figures = [
            f"{100 * group['accuracy']:.1f} ({interval_text(*group['interval'])})" if group["pairs"] else ""
            for group in groups
        ]
        smallest = f"{100 * result['smallest']:.1f}"
        cells.append([name, *figures, smallest, *[result.get("flags", "")] * with_flags])
    return Table(cells, len(names) + 1).markdown()


def _by_turn(results: Mapping[str, dict]) -> list[str]:
    groups = [group for result in results.values() for group in result["groups"].values()]
    turns = sorted({int(turn) for group in groups for turn in group["by_turn"]})
    lines = []
    for group in dict.fromkeys(name for result in results.values() for name in result["groups"]):
        cells = [[group, "%", "95 % interval", "pairs", *(f"turn {turn + 1}" for turn in turns)]]
        for name, result in results.items():
            found = result["groups"][group]
            by_turn = {int(turn): value for turn, value in found["by_turn"].items()}
            figures = ("", "")
            if found["pairs"]:
                figures = (f"{100 * found['accuracy']:.1f}", interval_text(*found["interval"]))
            shares = [f"{100 * by_turn[turn]['accuracy']:.1f}" if turn in by_turn else "" for turn in turns]
            cells.append([name, *figures, f"{found['pairs']:,}", *shares])
        lines += [Table(cells, len(cells[0]) - 1).markdown(), ""]
    return lines
