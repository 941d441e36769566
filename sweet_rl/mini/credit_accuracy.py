"""How often a critic ranks a useful question above a useless one of the same turn, by the mini tasks' oracle."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import combinations

import numpy as np

from sweet_rl.errors import UserError
from sweet_rl.mini.oracle import usefulness
from sweet_rl.records import TurnCandidates

WORTH = {"early": 0, "useless": 1, "repeated": 1, "useful": 2, "complete": 3}
QUESTIONS = ("useful over useless", "useful over repeated")
MARKUP = re.compile(r"<\|[a-z]+\|>")


def judged(record: TurnCandidates) -> list[tuple[str, str, float]]:
    """Return (text, the oracle's word, the critic's score) of each different candidate of a turn.

    Raises UserError for a turn that is not ranked or whose task is no mini task.
    """
    if record.judge_scores is None or "mini" not in record.task.extra or isinstance(record.input, str):
        raise UserError(
            f"candidates {record.id}: need 'judge_scores' (rank_best_of_n.py), a mini task, and the input as parts."
        )
    said = [MARKUP.sub("", part["text"]) for part in record.input if part["train"]]
    dialogue = [{"role": "assistant", "content": text} for text in said]
    scores = dict(zip(record.additional_outputs, record.judge_scores, strict=True))
    mini = record.task.extra["mini"]
    return [(text, usefulness(mini, dialogue, text), score) for text, score in scores.items()]


def pair_outcomes(candidates: list[tuple[str, str, float]]) -> list[tuple[str, float]]:
    """Return (kind of pair, 1 right, 0 wrong, 0.5 tied) for each pair of which one is the better by the oracle.

    Answering once all is told is better than any question, a useful question better than a useless or
    repeated one, and any question better than answering too early, which ends the dialogue. A kind is
    named `better over worse`, e.g. `useful over repeated`.
    """
    outcomes = []
    for (_, one, score_one), (_, other, score_other) in combinations(candidates, 2):
        if WORTH[one] == WORTH[other]:
            continue
        better, worse, gap = one, other, score_one - score_other
        if WORTH[other] > WORTH[one]:
            better, worse, gap = other, one, -gap
        outcomes.append((f"{better} over {worse}", 0.5 * (1 + float(np.sign(gap)))))
    return outcomes


def credit_accuracy(records: Iterable[TurnCandidates], seed: int = 0, resamples: int = 1000) -> dict:
    """Return the share of pairs ranked as the oracle does.

    `questions` is over all pairs of a useful and a useless or repeated question of one turn, with a 95 %
    bootstrap interval over tasks; `by_kind` and `by_turn` (turns counted from 0) split it up.
    """
    by_kind, by_turn = defaultdict(list), defaultdict(list)
    per_task: dict[str, list[float]] = defaultdict(list)
    words: Counter = Counter()
    for record in records:
        candidates = judged(record)
        words.update(word for _, word, _ in candidates)
        for kind, right in pair_outcomes(candidates):
            by_kind[kind].append(right)
            if kind in QUESTIONS:
                by_turn[record.turn].append(right)
                per_task[record.task.id].append(right)
    if not per_task:
        raise UserError("no turn has both a useful and a useless question among its candidates.")
    sums = np.array([[sum(rights), len(rights)] for rights in per_task.values()])
    picks = np.random.default_rng(seed).integers(0, len(sums), (resamples, len(sums)))
    totals = sums[picks].sum(1)
    low, high = np.percentile(totals[:, 0] / totals[:, 1], [2.5, 97.5])
    return {
        "questions": float(sums[:, 0].sum() / sums[:, 1].sum()),
        "interval": [float(low), float(high)],
        "pairs": int(sums[:, 1].sum()),
        "by_kind": {kind: {"accuracy": float(np.mean(v)), "pairs": len(v)} for kind, v in sorted(by_kind.items())},
        "by_turn": {turn: {"accuracy": float(np.mean(v)), "pairs": len(v)} for turn, v in sorted(by_turn.items())},
        "candidates": dict(words),
    }
