"""How often each row of a study agrees with the oracle of the mini tasks.

    python -m lab.critics.measure_study --studies 0=study.jsonl,200=study_200.jsonl \
        --output_path study.json --markdown_path study.md

Each file is an output of lab.critics.study_credit on candidates of mini tasks; files joined by + are seeds of one
study. The figures are those that lab.critics.measure_mini_credit gives for a file that is ranked with the row's flags.
"""

from __future__ import annotations

import json
from dataclasses import replace

from lab.critics.credit_accuracy import JudgedTurn, credit_accuracy, judged, read_judged
from lab.critics.credit_report import ReportSettings, named_files, show_credit
from sweet_rl.runs.cli import run
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import read_manifest
from sweet_rl.runs.records import TurnCandidates

Verdicts = dict[tuple[str, str], bool]


def main(studies: str, report: ReportSettings) -> None:
    """Measure the rows of studies by the oracle, which knows the rules of the mini tasks.

    Args:
        studies: Files for each number of dialogues that the critics were trained on, dialogues=file[+file...],
            separated by commas; 0 for critics without training. A row of a trained critic is named `row@dialogues`.
    """
    files = named_files("studies", studies)
    if not files or not all(name.isdigit() for name in files):
        raise UserError(f"--studies is {studies!r}; the name of a file is a number of dialogues: 0=study.jsonl")
    right: Verdicts = {}
    results: dict[str, dict] = {}
    for dialogues, paths in files.items():
        results |= measured_study(dialogues, paths, right, report.seed)
    show_credit(results, report)


def judged_by_rows(record: TurnCandidates, right: Verdicts) -> dict[str, JudgedTurn]:
    """The turn by each row of a study. Raises UserError if the record has none, or its task is not a mini task."""
    rows = record.extra.get("scores")
    if not isinstance(rows, dict):
        raise UserError(f"candidates {record.id}: need 'scores', which lab.critics.study_credit writes.")
    return {name: judged(replace(record, judge_scores=scores), right) for name, scores in rows.items()}


def measured_study(dialogues: str, paths: list[str], right: Verdicts, seed: int) -> dict[str, dict]:
    """The figures of each row of a study's files, with the row's flags, which the manifest names."""
    seeds = [[judged_by_rows(row, right) for row in rows] for rows in read_judged(paths, right)]
    rows = [frozenset(turn) for turns in seeds for turn in turns]
    if len(set(rows)) > 1:
        raise UserError(f"{' and '.join(paths)} have different rows: they are not seeds of one study.")
    manifest = read_manifest(paths[0])
    named = manifest["settings"]["rows"] if manifest else {}
    results = {}
    for row in seeds[0][0]:
        found = {"files": paths, **credit_accuracy([[turn[row] for turn in turns] for turns in seeds], seed)}
        if row in named:
            chosen = named[row]
            settings = json.dumps(chosen["critic_settings"])
            found["flags"] = f"--critic_type {chosen['critic_type']} --critic_settings '{settings}'"
        results[row if dialogues == "0" else f"{row}@{dialogues}"] = found
    return results


if __name__ == "__main__":
    run(main)
