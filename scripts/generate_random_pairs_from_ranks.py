"""Turn pairs from ranked candidates: one of the top half over one of the bottom half, without the reference
solution.

    python scripts/generate_random_pairs_from_ranks.py --input_path ranked.jsonl --output_path turn_pairs.jsonl
"""

from __future__ import annotations

from sweet_rl.cli import run


def main(
    input_path: str,
    output_path: str,
    num_pairs: int = 4,
    eos_text: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Draw turn pairs from ranked candidates.

    Args:
        input_path: output of rank_best_of_n.py
        num_pairs: pairs a turn
        eos_text: text of the token that ends a turn; default: what ranking noted
    """
    from tqdm import tqdm

    from sweet_rl.credit.turn_pairs import turn_pairs
    from sweet_rl.errors import UserError
    from sweet_rl.records import TurnCandidates, read_records
    from sweet_rl.runs.run import open_run

    if num_pairs < 1:
        raise UserError(f"--num_pairs is {num_pairs}; it must be at least 1.")
    records = read_records(input_path, TurnCandidates, limit)
    drawn = [turn_pairs(record, num_pairs, seed, eos_text) for record in records]
    if not any(drawn):
        raise UserError(f"{input_path}: no turn has two different candidates to pair.")
    settings = {"num_pairs": num_pairs, "eos_text": eos_text, "limit": limit, "seed": seed}
    with open_run(output_path, settings, [input_path], overwrite) as output:
        if output.complete:
            print(f"{output_path}: already complete")
            return
        for pair in tqdm([pair for pairs in drawn for pair in pairs], desc="turn pairs"):
            if pair.id not in output.done:
                output.write(pair.to_dict())
        summary = {
            "pairs": sum(map(len, drawn)),
            "turns": len(records),
            "turns_with_fewer": sum(len(pairs) < num_pairs for pairs in drawn),
        }
        output.finish(summary)
        print(f"{output_path}: {', '.join(f'{value} {name}' for name, value in summary.items())}")


if __name__ == "__main__":
    run(main)
