"""Step 6: turn pairs from ranked candidates: one of the top half over one of the bottom half, without the reference
solution.

    python scripts/generate_random_pairs_from_ranks.py --input_path ranked.jsonl --output_path turn_pairs.jsonl
"""

from __future__ import annotations

from typing import Annotated

from sweet_rl.method.turn_pairs import PairSettings, pair_file
from sweet_rl.runs.cli import prefix, run
from sweet_rl.runs.released import PAIRS
from sweet_rl.runs.step import StepSettings


def main(
    input_path: str,
    output_path: str,
    pairs: PairSettings,
    step: Annotated[StepSettings, prefix("", shard=None)],
) -> None:
    """Draw turn pairs from ranked candidates.

    Args:
        input_path: Output of rank_best_of_n.py.
        output_path: The pairs.
    """
    pair_file(pairs, input_path, output_path, step)


if __name__ == "__main__":
    run(main, released=PAIRS)
