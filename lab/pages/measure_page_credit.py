"""How often critics of pages agree with the oracle, which knows what each turn repairs and spoils.

    python -m lab.pages.measure_page_credit --runs "critic=ranked.jsonl,untrained=ranked_untrained.jsonl" \
        --output_path credit.json --markdown_path credit.md

Each file is an output of rank_best_of_n.py on candidates of page tasks; files joined by + are seeds of one critic.
Intervals are over seeds and tasks together.
"""

from __future__ import annotations

from functools import partial

from lab.critics.credit_accuracy import JudgedTurn, OracleOrder, credit_accuracy, judged_turn
from lab.critics.credit_report import ReportSettings, named_files, show_credit
from lab.pages.page_oracle import usefulness
from lab.pages.pages import read_page
from sweet_rl.runs.cli import run
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import TurnCandidates, read_records

ORDER = OracleOrder(
    worth={"early": 0, "spoils": 1, "idle": 2, "repairs": 3, "complete": 4},
    decisions={
        "repairing over other draft": ("repairs over idle", "repairs over spoils"),
        "draft over early page": ("repairs over early", "idle over early", "spoils over early"),
        "complete page over draft": ("complete over repairs", "complete over idle", "complete over spoils"),
    },
)


def judged(record: TurnCandidates) -> JudgedTurn:
    """The turn of a ranked record, by the oracle of pages. Raises UserError if it is not ranked or no page task."""
    page = None if record.task is None else read_page(record.task.ground_truth)
    if page is None or record.judge_scores is None or isinstance(record.input, str):
        raise UserError(f"candidates {record.id}: need 'judge_scores', a page task, and the input as parts.")
    return judged_turn(record, record.judge_scores, partial(usefulness, page))


def main(runs: str, report: ReportSettings) -> None:
    """Measure ranked candidates by the oracle.

    Args:
        runs: Files of each critic as name=file[+file...], separated by commas.
    """
    results = {}
    for name, paths in named_files("runs", runs).items():
        seeds = [[judged(row) for row in read_records(path, TurnCandidates)] for path in paths]
        results[name] = {"files": paths, **credit_accuracy(seeds, report.seed, ORDER)}
    show_credit(results, report, kinds=list(results))


if __name__ == "__main__":
    run(main)
