"""Credit accuracy: how often a critic ranks the better of two turns first, as judged by the mini oracles."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import combinations

import numpy as np

from sweet_rl.errors import UserError
from sweet_rl.mini import oracle, page_oracle
from sweet_rl.mini.pages import read_page
from sweet_rl.records import TurnCandidates

WORTH = {"early": 0, "useless": 1, "repeated": 1, "spoils": 1, "useful": 2, "idle": 2, "repairs": 3, "complete": 4}
QUESTIONS = {
    "useful over useless question": ("useful over useless", "useful over repeated"),
    "question over early answer": ("useful over early", "useless over early", "repeated over early"),
    "complete answer over question": ("complete over useless", "complete over repeated"),
}
DRAFTS = {
    "repairing over other draft": ("repairs over idle", "repairs over spoils"),
    "draft over early page": ("repairs over early", "idle over early", "spoils over early"),
    "complete page over draft": ("complete over repairs", "complete over idle", "complete over spoils"),
}
MARKUP = re.compile(r"<\|[a-z]+\|>")


def judged(record: TurnCandidates) -> list[tuple[str, str, float]]:
    """Return (text, the oracle's word, the critic's score) of each different candidate of a turn.

    Raises:
        UserError: the turn is not ranked, or its task is not a mini task.
    """
    mini, page = record.task.extra.get("mini"), read_page(record.task.ground_truth)
    if record.judge_scores is None or (mini is None and page is None) or isinstance(record.input, str):
        raise UserError(
            f"candidates {record.id}: need 'judge_scores' (rank_best_of_n.py), a mini task, and the input as parts."
        )
    earlier = [MARKUP.sub("", part["text"]) for part in record.input if part["train"]]
    dialogue = [{"role": "assistant", "content": text} for text in earlier]
    scores = dict(zip(record.additional_outputs, record.judge_scores, strict=True))
    if page is not None:
        return [(text, page_oracle.usefulness(page, dialogue, text), score) for text, score in scores.items()]
    return [(text, oracle.usefulness(mini, dialogue, text), score) for text, score in scores.items()]


def pair_outcomes(candidates: list[tuple[str, str, float]]) -> list[tuple[str, float]]:
    """Compare a critic's scores with the oracle, for each pair of candidates of one turn.

    The order of the oracle is `WORTH`: a complete answer is better than any question, a useful question better than a
    useless or repeated one, and any question better than an early answer, which ends the dialogue. A page that repairs
    more parts than it spoils is better than an idle one, and an idle one better than one that spoils more.

    Args:
        candidates: of `judged`.

    Returns:
        (kind, outcome) for each pair of which the oracle prefers one: the kind is `better over worse`, for example
        `useful over repeated`; the outcome is 1 if the critic agrees, 0 if not, 0.5 for equal scores.
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
    """Return the share of pairs of candidates of one turn that the critic ranks as the oracle does; ties count half.

    Args:
        records: ranked candidates of mini tasks.
        seed, resamples: of the bootstrap over tasks.

    Returns:
        groups: the three decisions of an agent: which question to ask (which page to draw), not to answer too early,
            and to answer when everything is told (drawn). Each has `accuracy`, its 95 % `interval`, `pairs` and
            `by_turn` (turns count from 0). The accuracy of a group without pairs is None.
        by_kind: accuracy and pairs of each kind of `pair_outcomes`.
        candidates: counts of the oracle's words.

    Raises:
        UserError: no pair is about the first decision, or a record cannot be judged.
    """
    outcomes: dict[str, list[tuple[str, int, float]]] = defaultdict(list)
    words: Counter = Counter()
    for record in records:
        candidates = judged(record)
        words.update(word for _, word, _ in candidates)
        for kind, right in pair_outcomes(candidates):
            outcomes[kind].append((record.task.id, record.turn, right))
    groups = QUESTIONS if words.keys() & {"useful", "useless", "repeated"} else DRAFTS
    if not any(outcomes[kind] for kind in next(iter(groups.values()))):
        raise UserError(
            "no turn has both a useful and a useless question (a repairing and another draft) among its candidates."
        )
    return {
        "groups": {
            name: _group([row for kind in kinds for row in outcomes[kind]], seed, resamples)
            for name, kinds in groups.items()
        },
        "by_kind": {kind: _share([right for *_, right in rows]) for kind, rows in sorted(outcomes.items()) if rows},
        "candidates": dict(words),
    }


def _group(rows: list[tuple[str, int, float]], seed: int, resamples: int) -> dict:
    by_task: dict[str, list[float]] = defaultdict(list)
    by_turn: dict[int, list[float]] = defaultdict(list)
    for task, turn, right in rows:
        by_task[task].append(right)
        by_turn[turn].append(right)
    if not rows:
        return {"accuracy": None, "interval": None, "pairs": 0, "by_turn": {}}
    sums = np.array([[sum(rights), len(rights)] for rights in by_task.values()])
    picks = np.random.default_rng(seed).integers(0, len(sums), (resamples, len(sums)))
    totals = sums[picks].sum(1)
    low, high = np.percentile(totals[:, 0] / totals[:, 1], [2.5, 97.5])
    return {
        **_share([right for *_, right in rows]),
        "interval": [float(low), float(high)],
        "by_turn": {turn: _share(rights) for turn, rights in sorted(by_turn.items())},
    }


def _share(rights: list[float]) -> dict:
    return {"accuracy": float(np.mean(rights)), "pairs": len(rights)}


def credit_markdown(results: Mapping[str, dict]) -> str:
    """Markdown tables, one per decision: for each critic the accuracy with its interval, and by turn."""
    groups = [group for result in results.values() for group in result["groups"].values()]
    turns = sorted({int(turn) for group in groups for turn in group["by_turn"]})
    lines = []
    for group in dict.fromkeys(name for result in results.values() for name in result["groups"]):
        lines += [f"| {group} | % | 95 % interval | pairs | {' | '.join(f'turn {turn + 1}' for turn in turns)} |"]
        lines += ["| --- |" + " ---: |" * (3 + len(turns))]
        for name, result in results.items():
            found = result["groups"][group]
            by_turn = {int(turn): value for turn, value in found["by_turn"].items()}
            figures = ("", "")
            if found["pairs"]:
                low, high = found["interval"]
                figures = (f"{100 * found['accuracy']:.1f}", f"{100 * low:.1f} to {100 * high:.1f}")
            cells = [f"{100 * by_turn[turn]['accuracy']:.1f}" if turn in by_turn else "" for turn in turns]
            lines.append("| " + " | ".join([name, *figures, f"{found['pairs']:,}", *cells]) + " |")
        lines.append("")
    return "\n".join(lines)
