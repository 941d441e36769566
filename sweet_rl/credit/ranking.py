"""Candidates of a turn, ordered by their advantage (PAPER step 4)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from sweet_rl.chat import ChatFormat, with_hint
from sweet_rl.credit.advantage import advantage, order_by_score
from sweet_rl.credit.candidate_texts import completion_part, prompt_parts
from sweet_rl.errors import UserError
from sweet_rl.records import Part, TurnCandidates
from sweet_rl.training.rows import EncodedText

Score = Callable[[Sequence[EncodedText]], list[np.ndarray]]  # texts -> log-probs of their trained tokens


def candidate_texts(record: TurnCandidates, chat: ChatFormat, hint: bool) -> list[EncodedText]:
    """One text a candidate, all with the same prompt, which starts with the reference solution if `hint`.

    Raises UserError naming the record: no candidates, no task to take the solution from, an empty candidate.
    """
    where = f"candidates {record.id!r}"
    if not record.additional_outputs:
        raise UserError(f"{where}: additional_outputs is empty. Sample candidates with sample_best_of_n.py.")
    prompt: list[Part] = prompt_parts(record, chat.bos_text)
    if hint:
        if record.task is None:
            raise UserError(
                f"{where}: no 'task', so there is no reference solution to show the critic. Rank with "
                "--no_prompt, or sample the candidates again with sample_best_of_n.py."
            )
        prompt = with_hint(prompt, record.task.ground_truth)
    texts = []
    for i in range(len(record.additional_outputs)):
        part = completion_part(record, i, chat.eos_text)
        ids, train = chat.encode([*prompt, part], record.tokenizer)
        texts.append(EncodedText.build(ids, train, f"{where}, candidate {i}"))
    return texts


def rank(
    records: Sequence[TurnCandidates],
    chat: ChatFormat,
    critic: Score,
    reference: Score | None,
    hint: bool = True,
    normalize: str = "turn",
) -> list[TurnCandidates]:
    """The records with judge_scores (A of each candidate) and judge_result (indices, best first).

    reference: scores the same texts under the seed model; None takes the sampling log-probs stored with the
    candidates, which the actor gave without the reference solution (as released).
    """
    texts = [candidate_texts(record, chat, hint) for record in records]
    flat = [text for group in texts for text in group]
    ends = np.cumsum([len(group) for group in texts])[:-1]
    theta = _regroup(critic(flat), ends)
    other = _regroup(reference(flat), ends) if reference else [_sampled(record) for record in records]
    ranked = []
    for record, own, ref in zip(records, theta, other, strict=True):
        scores = [advantage(a, b, normalize) for a, b in zip(own, ref, strict=True)]
        extra = {**record.extra, "eos_text": chat.eos_text}
        ranked.append(
            dataclasses.replace(record, judge_scores=scores, judge_result=order_by_score(scores), extra=extra)
        )
    return ranked


def _regroup(values: list, ends: np.ndarray) -> list[list]:
    starts = [0, *ends.tolist()]
    return [values[a:b] for a, b in zip(starts, [*ends.tolist(), len(values)], strict=True)]


def _sampled(record: TurnCandidates) -> list:
    values = record.additional_reference_logprobs
    if values is None or any(isinstance(v, list) and not v for v in values):
        raise UserError(
            f"candidates {record.id!r}: no sampling log-probs (additional_reference_logprobs). "
            "Rank with --reference seed --reference_model_id MODEL."
        )
    return values
