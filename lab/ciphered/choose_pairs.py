"""Step 6 by rules that generate_random_pairs_from_ranks.py does not have: turn pairs of ranked candidates.

    python -m lab.ciphered.choose_pairs --rule best_over_worst --input_path ranked.jsonl --output_path turn_pairs.jsonl

Rules: `best_over_worst`, one pair a turn; `random`, without regard to the scores; `oracle`, a useful question over
another one.
"""

from __future__ import annotations

import random
from functools import partial
from itertools import product
from typing import Literal

from lab.ciphered.domain import label_turn
from lab.ciphered.tasks import write_rows
from lab.critics.credit_accuracy import judged_turn
from sweet_rl.method.turn_pairs import make_pairs
from sweet_rl.runs.cli import run
from sweet_rl.runs.records import TurnCandidates, read_records, seed_for

Rule = Literal["best_over_worst", "random", "oracle"]


def chosen_pairs(record: TurnCandidates, rule: Rule) -> list[tuple[int, int]]:
    """The pairs (chosen, rejected) of a turn that the rule allows, candidates of equal text once."""
    texts, scores = record.additional_outputs, record.judge_scores or []
    places = list({text: place for place, text in enumerate(texts)}.values())
    if rule == "best_over_worst":
        order = sorted(places, key=lambda place: -scores[place])
        return [(order[0], order[-1])] if len(order) > 1 else []
    if rule == "random":
        return [(a, b) for a, b in product(places, places) if a != b]
    assert record.task is not None
    words = dict(zip(places, judged_turn(record, scores, partial(label_turn, record.task)).words, strict=True))
    return [(a, b) for a, b in product(places, places) if words[a] == "useful" != words[b]]


def main(rule: Rule, input_path: str, output_path: str, num_pairs: int = 4, seed: int = 0) -> None:
    """Write turn pairs.

    Args:
        rule: Which pairs of candidates are allowed.
        input_path: Ranked candidates.
        output_path: Turn pairs.
        num_pairs: Largest number of pairs a turn.
        seed: Seed of the draw among them.
    """
    records = read_records(input_path, TurnCandidates)
    rows = []
    for record in records:
        allowed = chosen_pairs(record, rule)
        random.Random(seed_for(seed, record.id, rule)).shuffle(allowed)
        rows += [pair.to_dict() for pair in make_pairs(record, allowed[:num_pairs], record.eos_text or "")]
    write_rows(output_path, rows)
    print(f"{output_path}: {len(rows)} turn pairs")


if __name__ == "__main__":
    run(main)
