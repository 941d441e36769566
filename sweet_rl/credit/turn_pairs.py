"""Ranked candidates -> turn pairs: a random one of the top half over a random one of the bottom half (PAPER
step 5).
"""

from __future__ import annotations

import random

from sweet_rl.credit.candidate_texts import completion_part, prompt_parts
from sweet_rl.errors import UserError
from sweet_rl.records import PreferencePair, TurnCandidates, seed_for


def turn_pairs(
    record: TurnCandidates, num_pairs: int = 4, seed: int = 0, eos_text: str | None = None
) -> list[PreferencePair]:
    """Up to `num_pairs` different pairs of one turn; fewer where the candidates do not give as many.

    The halves are the first and the last n // 2 of judge_result, so the middle one of an odd number is in
    neither. Equal texts are never paired and no pair of texts comes twice. The choice depends on `seed` and
    the record's id only. The prompt is o_t without the reference solution, nothing in it trained.
    eos_text: written after candidates that ended by themselves; None takes what ranking noted in the record.
    Raises UserError naming the record if it is not ranked or the EOS is not known.
    """
    where = f"candidates {record.id!r}"
    if record.judge_result is None:
        raise UserError(f"{where}: not ranked, judge_result is missing. Run rank_best_of_n.py first.")
    eos_text = record.eos_text if eos_text is None else eos_text
    if eos_text is None:
        raise UserError(f"{where}: which text ends a turn is not noted. Give --eos_text, e.g. '<|eot_id|>'.")
    half = len(record.judge_result) // 2
    outputs = record.additional_outputs
    combinations: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for chosen in record.judge_result[:half]:
        for rejected in record.judge_result[len(record.judge_result) - half :]:
            if outputs[chosen] != outputs[rejected]:
                combinations.setdefault((outputs[chosen], outputs[rejected]), []).append((chosen, rejected))

    draw = random.Random(seed_for(seed, record.id, "turn_pairs"))
    everything = [pair for pairs in combinations.values() for pair in pairs]
    draw.shuffle(everything)
    prompt = prompt_parts(record)
    pairs: list[PreferencePair] = []
    taken: set[tuple[str, str]] = set()
    for chosen, rejected in everything:
        texts = (outputs[chosen], outputs[rejected])
        if texts in taken:
            continue
        if len(pairs) == num_pairs:
            break
        taken.add(texts)
        pairs.append(
            PreferencePair(
                id=f"{record.id}-{len(pairs)}",
                chosen=[*prompt, completion_part(record, chosen, eos_text)],
                rejected=[*prompt, completion_part(record, rejected, eos_text)],
                tokenizer=record.tokenizer,
                task_id=None if record.task is None else record.task.id,
            )
        )
    return pairs
