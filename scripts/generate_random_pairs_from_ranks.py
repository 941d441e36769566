"""Step 6: turn pairs from ranked candidates: one of the top half over one of the bottom half, without the reference
solution.

    python scripts/generate_random_pairs_from_ranks.py --input_path ranked.jsonl --output_path turn_pairs.jsonl
"""

from __future__ import annotations

from sweet_rl.cli import run
from sweet_rl.cli.released import PAIRS


def main(
    input_path: str,
    output_path: str,
    num_pairs: int = 4,
    eos_text: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    overwrite: bool = False,
    get_sft: bool = False,
    push_to_hub: str | None = None,
) -> None:
    """Draw turn pairs from ranked candidates.

    Args:
        input_path: output of rank_best_of_n.py.
        output_path: the pairs.
        num_pairs: pairs per turn.
        eos_text: text of the token that ends a turn; default: as recorded, or as in the prompts' markup.
        limit: number of records that are read; default: all.
        seed: of the draw.
        overwrite: replace an output of other settings.
        get_sft: draw random candidates, ranked or not, each as chosen and as rejected, for train_sft.py.
        push_to_hub: repository on the hub, OWNER/NAME, to which the finished output is uploaded with a card.
    """
    from sweet_rl.credit.turn_pairs import pair_file

    pair_file(input_path, output_path, num_pairs, eos_text, limit, seed, overwrite, get_sft, push_to_hub)


if __name__ == "__main__":
    run(main, released=PAIRS)
