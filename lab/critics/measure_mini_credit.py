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
from sweet_rl.evaluation.compare import parse_runs
from sweet_rl.evaluation.statistics import interval_text
from sweet_rl.evaluation.table import Table
from sweet_rl.runs.cli import run
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
        markdown_path: Markdown file for the table.
        seed: Random seed of the bootstrap.
        overwrite: Replace the outputs.
    """
    check_paths([output_path, markdown_path])
    right: dict[tuple[str, str], bool] = {}
    results = {}
    for name, paths in parse_runs(runs).items():
        for path in paths:
            check_finished(path)
        seeds = [[judged(row, right) for row in rows] for rows in read_judged(paths, right)]
        results[name] = {"files": paths, **credit_accuracy(seeds, seed)}
    tables = credit_markdown(results)
    outputs = {output_path: json.dumps(results, indent=2) + "\n", markdown_path: tables}
    write_texts({path: text for path, text in outputs.items() if path is not None}, overwrite)
    print(tables)


def credit_markdown(results: Mapping[str, dict]) -> str:
    """A row per critic with the accuracy of each decision and its interval, sorted by the smallest of them."""
    names = list(next(iter(results.values()))["groups"])
    cells = [["critic", *(f"{name}, %" for name in names), "smallest, %"]]
    for name, result in sorted(results.items(), key=lambda item: -item[1]["smallest"]):
        groups = [result["groups"][one] for one in names]
        figures = [
            f"{100 * one['accuracy']:.1f} ({interval_text(*one['interval'])})" if one["pairs"] else "" for one in groups
        ]
        cells.append([name, *figures, f"{100 * result['smallest']:.1f}"])
    return Table(cells, len(names) + 1).markdown() + "\n"


if __name__ == "__main__":
    run(main)
