"""Credit assignment on the mini tasks: how often ranked candidates agree with the oracle.

    python scripts/measure_mini_credit.py \
        --runs "critic=runs/mini/seed0/ranked.jsonl,without c=runs/mini/seed0/ranked_no_prompt.jsonl" \
        --output_path credit.json

Each file is an output of rank_best_of_n.py on candidates of mini tasks. Printed last: the share of pairs of
a useful and a useless (or repeated) question of the same turn in which the useful one is ranked higher.
"""

import json

from sweet_rl.cli import run
from sweet_rl.errors import UserError
from sweet_rl.mini.credit_accuracy import credit_accuracy
from sweet_rl.records import TurnCandidates, read_records
from sweet_rl.runs import write_texts


def main(runs: str, output_path: str | None = None, seed: int = 0, overwrite: bool = False) -> None:
    """Measure ranked candidates by the oracle.

    Args:
        runs: name=file for each ranked file, separated by commas
        output_path: write the figures here as JSON
        seed: of the bootstrap
    """
    entries = [tuple(map(str.strip, entry.partition("=")[::2])) for entry in runs.split(",")]
    named = dict(entries)
    if len(named) < len(entries) or not all(name and path for name, path in entries):
        raise UserError(f"--runs is {runs!r}; expected name=file with each name once, several separated by commas.")
    results = {name: credit_accuracy(read_records(path, TurnCandidates), seed) for name, path in named.items()}
    if output_path:
        write_texts({output_path: json.dumps(results, indent=2) + "\n"}, overwrite)
    width = max(map(len, results))
    for name, result in results.items():
        for kind, value in result["by_kind"].items():
            print(f"{name:{width}}  {kind:24} {100 * value['accuracy']:5.1f} %  of {value['pairs']} pairs")
    for name, result in results.items():
        low, high = result["interval"]
        print(
            f"{name:{width}}  useful question above useless one: {100 * result['questions']:.1f} % "
            f"[{100 * low:.1f}, {100 * high:.1f}] of {result['pairs']} pairs"
        )


if __name__ == "__main__":
    run(main)
