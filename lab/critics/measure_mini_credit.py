"""Credit assignment on the mini tasks: how often ranked candidates agree with the oracle.

    python -m lab.critics.measure_mini_credit \
        --runs "critic=runs/mini/seed0/ranked.jsonl,without c=runs/mini/seed0/ranked_no_prompt.jsonl" \
        --output_path credit.json --markdown_path credit.md

Each file is an output of rank_best_of_n.py by any critic, on candidates of mini tasks; files joined by + are seeds of
one critic. Answers run in the sandbox: an answer is complete if it is right. Intervals are over seeds and tasks
together.
"""

from lab.critics.credit_accuracy import credit_accuracy, judged, read_judged
from lab.critics.credit_report import ReportSettings, named_files, show_credit
from sweet_rl.runs.cli import run
from sweet_rl.runs.errors import UserError


def main(runs: str, report: ReportSettings) -> None:
    """Measure ranked candidates by the oracle, which knows the rules of the mini tasks.

    Args:
        runs: Files of each critic, name=file[+file...], separated by commas.
    """
    files = named_files("runs", runs)
    if not files:
        raise UserError("missing: --runs name=file.")
    right: dict[tuple[str, str], bool] = {}
    results = {}
    for name, paths in files.items():
        seeds = [[judged(row, right) for row in rows] for rows in read_judged(paths, right)]
        results[name] = {"files": paths, **credit_accuracy(seeds, report.seed)}
    show_credit(results, report, kinds=list(results))


if __name__ == "__main__":
    run(main)
