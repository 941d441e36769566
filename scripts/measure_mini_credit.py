"""Credit assignment on the mini tasks: how often ranked candidates agree with the oracle.

    python scripts/measure_mini_credit.py \
        --runs "critic=runs/mini/seed0/ranked.jsonl,without c=runs/mini/seed0/ranked_no_prompt.jsonl" \
        --output_path credit.json --markdown_path credit.md

Each file is an output of rank_best_of_n.py on candidates of mini tasks; files joined by + are seeds of one critic.
"""

import json

from sweet_rl.cli import run
from sweet_rl.errors import UserError
from sweet_rl.mini.credit_accuracy import credit_accuracy, credit_markdown
from sweet_rl.records import TurnCandidates, read_records
from sweet_rl.runs.run import write_texts


def main(
    runs: str,
    output_path: str | None = None,
    markdown_path: str | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Measure ranked candidates by the oracle, which knows the rules of the mini tasks.

    Args:
        runs: name=file[+file...] for each critic, separated by commas
        output_path: write the figures here as JSON
        markdown_path: write the tables here as Markdown
        seed: of the bootstrap.
        overwrite: replace the outputs.
    """
    entries = [tuple(map(str.strip, entry.partition("=")[::2])) for entry in runs.split(",")]
    named = dict(entries)
    if len(named) < len(entries) or not all(name and path for name, path in entries):
        raise UserError(f"--runs is {runs!r}; expected name=file with each name once, several separated by commas.")
    if output_path is not None and output_path == markdown_path:
        raise UserError(f"--output_path and --markdown_path are both {output_path}: choose two files.")
    results = {name: measured(paths.split("+"), seed) for name, paths in named.items()}
    outputs = {
        output_path: json.dumps(results, indent=2) + "\n",
        markdown_path: credit_markdown(results),
    }
    write_texts({path: text for path, text in outputs.items() if path is not None}, overwrite)
    width = max(map(len, results))
    for name, result in results.items():
        for kind, value in result["by_kind"].items():
            print(f"{name:{width}}  {kind:24} {100 * value['accuracy']:5.1f} %  of {value['pairs']} pairs")
    for name, result in results.items():
        for group, value in result["groups"].items():
            if value["pairs"]:
                low, high = value["interval"]
                print(
                    f"{name:{width}}  {group}: {100 * value['accuracy']:.1f} % [{100 * low:.1f}, {100 * high:.1f}] of "
                    f"{value['pairs']} pairs"
                )


def measured(paths: list[str], seed: int) -> dict:
    """The figures of one critic's files, and which these are."""
    rows = (row for path in paths for row in read_records(path, TurnCandidates))
    return {"files": paths, **credit_accuracy(rows, seed)}


if __name__ == "__main__":
    run(main)
