"""Turn pairs from ranked candidates (step 6): the better half over the worse half, or clearly different scores."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import permutations
from typing import Literal

import numpy as np
from pydantic import PositiveInt

from sweet_rl.method.candidate_texts import completion_part, prompt_parts
from sweet_rl.models.texts.released_texts import recognised
from sweet_rl.runs.cli import to_settings
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import PreferencePair, TurnCandidates, read_records, seed_for
from sweet_rl.runs.run import open_run
from sweet_rl.runs.step import StepSettings


@dataclass(frozen=True)
class PairSettings:
    """How turn pairs are drawn.

    Attributes:
        num_pairs: Largest number of pairs per turn.
        rule: Which candidates are paired: halves, one of the better half over one of the worse (the paper), or gap,
            those whose scores differ by more than their turn's standard deviation and the median one of all turns.
        eos_text: Text of the token that ends a turn; default: as recorded, or as in the prompts' markup.
        get_sft: Draw random candidates, ranked or not, each as chosen and as rejected, for train_sft.py.
        seed: Random seed of the draw.
    """

    num_pairs: PositiveInt = 4
    rule: Literal["halves", "gap"] = "halves"
    eos_text: str | None = None
    get_sft: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.get_sft and self.rule == "gap":
            raise UserError("--get_sft draws candidates without their scores: leave --rule gap out.")


def halves(order: list[int]) -> tuple[list[int], list[int]]:
    """The better and the worse half of ranked indices: the first and the last n // 2 of `order`."""
    half = len(order) // 2
    return order[:half], order[len(order) - half :]


def turn_pairs(
    record: TurnCandidates,
    num_pairs: int = 4,
    seed: int = 0,
    eos_text: str | None = None,
    rule: str = "halves",
    typical: float = 0.0,
) -> list[PreferencePair]:
    """Draw at most `num_pairs` pairs of candidates of one turn; no pair of texts is drawn twice.

    The prompt is o_t without the reference solution; only the candidate is trained. The draw depends on `seed` and the
    record's id only.

    Args:
        eos_text: Text at the end of candidates that were not cut. None takes the record's `eos_text`, or that of its
            prompt's markup if it is a released text.
        rule: halves (`half_pairs`), gap (`gap_pairs`, with `typical`), or same (`same_pairs`).

    Raises:
        UserError: The record, which the message names, is not ranked, or its EOS is not known.
    """
    if rule == "halves":
        pairs, purpose = half_pairs(record), "turn_pairs"
    elif rule == "gap":
        pairs, purpose = gap_pairs(record, typical), "gap"
    else:
        pairs, purpose = same_pairs(record), "imitation_pairs"
    random.Random(seed_for(seed, record.id, purpose)).shuffle(pairs)
    different: dict[tuple[str, str], tuple[int, int]] = {}
    for chosen, rejected in pairs:
        texts = record.additional_outputs[chosen], record.additional_outputs[rejected]
        different.setdefault(texts, (chosen, rejected))
    return make_pairs(record, list(different.values())[:num_pairs], eos_text)


def half_pairs(record: TurnCandidates) -> list[tuple[int, int]]:
    """Indices (chosen, rejected) of all pairs of a candidate of the top half of judge_result over one of the bottom.

    The middle one of an odd number is in neither half. Equal texts and equal scores are never paired.
    """
    if record.judge_result is None:
        raise _not_ranked(record, "judge_result")
    top, bottom = halves(record.judge_result)
    outputs, scores = record.additional_outputs, record.judge_scores
    pairs = [(a, b) for a in top for b in bottom if outputs[a] != outputs[b]]
    if scores is not None:
        pairs = [(a, b) for a, b in pairs if scores[a] != scores[b]]
    in_order = [(outputs[a], outputs[b]) for a, b in pairs]
    return sorted(pairs, key=lambda pair: in_order.index((outputs[pair[0]], outputs[pair[1]])))  # equal ones together


def gap_pairs(record: TurnCandidates, typical: float = 0.0) -> list[tuple[int, int]]:
    """Indices (chosen, rejected) of all pairs of different candidates whose scores differ clearly.

    The difference has to be larger than the standard deviation of the scores of the turn's different texts, and than
    `typical`, the median `spread` of all turns. If all candidates are worth about the same, halves would pair noise;
    such a turn gives no pair.
    """
    scores = record.judge_scores
    if scores is None:
        raise _not_ranked(record, "judge_scores")
    places = {text: place for place, text in enumerate(record.additional_outputs)}.values()
    least = max(float(np.std([scores[place] for place in places])), typical)
    return [(a, b) for a, b in permutations(places, 2) if scores[a] - scores[b] > least]


def same_pairs(record: TurnCandidates) -> list[tuple[int, int]]:
    """Each different candidate with a token, ranked or not, as chosen and as rejected, for train_sft.py."""
    first = {record.additional_outputs[i]: i for i in reversed(record.with_tokens())}
    return [(i, i) for i in sorted(first.values())]


def spread(record: TurnCandidates) -> float:
    """Standard deviation of the scores of a turn's candidates. Raises UserError if it is not ranked."""
    if record.judge_scores is None:
        raise _not_ranked(record, "judge_scores")
    return float(np.std(record.judge_scores))


def make_pairs(
    record: TurnCandidates, drawn: list[tuple[int, int]], eos_text: str | None = None
) -> list[PreferencePair]:
    """Turn pairs of the candidates with the indices (chosen, rejected) in `drawn`; arguments as in `turn_pairs`."""
    prompt, eos_text = prompt_parts(record), _eos_text(record) if eos_text is None else eos_text
    return [
        PreferencePair(
            id=f"{record.id}-{number}",
            chosen=[*prompt, completion_part(record, chosen, eos_text)],
            rejected=[*prompt, completion_part(record, rejected, eos_text)],
            tokenizer=record.tokenizer,
            task_id=None if record.task is None else record.task.id,
        )
        for number, (chosen, rejected) in enumerate(drawn)
    ]


def _eos_text(record: TurnCandidates) -> str:
    if record.eos_text:
        return record.eos_text
    markup = recognised(record.input) if isinstance(record.input, str) else None
    if markup is None:
        raise UserError(
            f"candidates {record.id!r}: which text ends a turn is not noted. Give --eos_text, e.g. '<|eot_id|>'."
        )
    return markup.eos


def _not_ranked(record: TurnCandidates, missing: str) -> UserError:
    return UserError(f"candidates {record.id!r}: not ranked, {missing} is missing. Run rank_best_of_n.py first.")


def pair_file(settings: PairSettings, input_path: str, output_path: str, step: StepSettings) -> dict:
    """Write the turn pairs of a file of ranked candidates. A killed run continues with the same call.

    Returns:
        The summary: pairs, turns, turns_with_fewer_pairs, and turns_with_equal_scores if there are some.

    Raises:
        UserError: A record gives no pairs for a reason of `turn_pairs`, or no record has two candidates to pair.
    """
    with open_run(output_path, to_settings(settings, step), [input_path], step.overwrite) as run:
        if run.finished:
            return run.show()
        records = read_records(input_path, TurnCandidates, step.limit)
        rule = "same" if settings.get_sft else settings.rule
        typical = float(np.median([spread(record) for record in records])) if rule == "gap" else 0.0
        how = settings.num_pairs, settings.seed, settings.eos_text, rule, typical
        drawn = [turn_pairs(record, *how) for record in records]
        # With the seed reference, an untrained critic gives all candidates the same score.
        scores = [record.judge_scores for record in records if record.judge_scores and not settings.get_sft]
        equal = sum(len(values) > 1 and len(set(values)) == 1 for values in scores)
        if not any(drawn):
            why = (
                f" In {equal} of {len(records)} turns all candidates have the same score, as by a critic whose weights "
                "are still those of its reference: train it longer or with a larger --learning_rate."
            )
            raise UserError(f"{input_path}: no turn has two candidates that can be paired.{why if equal else ''}")
        run.write_missing(pair.to_dict() for pairs in drawn for pair in pairs)
        fewer = sum(len(pairs) < settings.num_pairs for pairs in drawn)
        summary = {"pairs": len(run.done), "turns": len(records), "turns_with_fewer_pairs": fewer}
        summary |= {"turns_with_equal_scores": equal} if equal else {}
        return run.finish(summary)
