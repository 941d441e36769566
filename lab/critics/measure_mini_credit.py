"""Credit assignment on the mini tasks: how often ranked candidates agree with the oracle.

    python -m lab.critics.measure_mini_credit \
        --runs "critic=runs/mini/seed0/ranked.jsonl,without c=runs/mini/seed0/ranked_no_prompt.jsonl" \
        --output_path credit.json --markdown_path credit.md

Each file is an output of rank_best_of_n.py by any critic, on candidates of mini tasks; files joined by + are seeds of
one critic. Answers run in the sandbox: an answer is complete if it is right. Intervals are over seeds and tasks
together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from lab.critics.credit_accuracy import credit_accuracy, judged, read_judged
from sweet_rl.evaluation.statistics import interval_text
from sweet_rl.evaluation.table import Table
from sweet_rl.runs.cli import run
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import check_finished
from sweet_rl.runs.paths import check_paths, write_texts


def main(
    runs: str,
    output_path: str | None = None,
    markdown_path: str | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Measure ranked candidates by the oracle, which knows the rules of the mini tasks.

    Args:
        runs: Files of each critic, name=file[+file...], separated by commas.
        output_path: JSON file for the figures.
        markdown_path: Markdown file for the tables.
        seed: Random seed of the bootstrap.
        overwrite: Replace the outputs.
    """
    check_paths([output_path, markdown_path])
    right: dict[tuple[str, str], bool] = {}
    results = {}
    for name, paths in named_files(runs).items():
        seeds = [[judged(row, right) for row in rows] for rows in read_judged(paths, right)]
        results[name] = {"files": paths, **credit_accuracy(seeds, seed)}
    tables = credit_markdown(results)
    outputs = {output_path: json.dumps(results, indent=2) + "\n", markdown_path: tables}
    write_texts({path: text for path, text in outputs.items() if path is not None}, overwrite)
    print(tables)


def named_files(text: str) -> dict[str, list[str]]:
    """Return the files of each name in `name=file[+file],...`; they are its seeds.

    Raises:
        UserError: The text has another form, a name or a file of a name occurs twice, or a file is unfinished or
            changed.
    """
    entries = [(name.strip(), path.strip()) for name, _, path in (entry.partition("=") for entry in text.split(","))]
    named = dict(entries)
    if len(named) < len(entries) or not all(name and path for name, path in entries):
        raise UserError(f"--runs is {text!r}; expected name=file with each name once, several separated by commas.")
    files = {name: path.split("+") for name, path in named.items()}
    for name, paths in files.items():
        if len(set(paths)) < len(paths):
            raise UserError(f"--runs: the seeds of {name!r} are {paths}: give each file once.")
        for path in paths:
            check_finished(path)
    return files


def credit_markdown(results: Mapping[str, dict]) -> str:
    """Markdown tables: a summary with a row per critic, best first, and one per decision with the accuracy by turn.

    The summary has the accuracy of each decision with its interval, and the smallest of them, by which it is sorted.
    """
    names = list(next(iter(results.values()))["groups"])
    cells = [["critic", *(f"{name}, %" for name in names), "smallest, %"]]
    for name, result in sorted(results.items(), key=lambda item: -item[1]["smallest"]):
        figures = [" ".join(_figures(result["groups"][one], "({})")).strip() for one in names]
        cells.append([name, *figures, f"{100 * result['smallest']:.1f}"])
    tables = [Table(cells, len(names) + 1).markdown()]
    turns = sorted(
        {turn for result in results.values() for group in result["groups"].values() for turn in group["by_turn"]}
    )
    for group in names:
        cells = [[group, "%", "95 % interval", "pairs", *(f"turn {turn + 1}" for turn in turns)]]
        for name, result in results.items():
            found = result["groups"][group]
            by_turn = [found["by_turn"].get(turn) for turn in turns]
            shares = [f"{100 * one['accuracy']:.1f}" if one else "" for one in by_turn]
            cells.append([name, *_figures(found), f"{found['pairs']:,}", *shares])
        tables.append(Table(cells, len(cells[0]) - 1).markdown())
    return "\n\n".join(tables) + "\n"


def _figures(group: dict, shape: str = "{}") -> tuple[str, str]:
    """The accuracy of a decision in % and its interval; empty without pairs."""
    if not group["pairs"]:
        return "", ""
    return f"{100 * group['accuracy']:.1f}", shape.format(interval_text(*group["interval"]))


if __name__ == "__main__":
    run(main)
