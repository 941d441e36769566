"""Credit accuracy: how often a critic ranks the better of two turns first, as judged by the mini oracles."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from lab.pages import page_oracle
from lab.pages.pages import read_page
from sweet_rl.errors import UserError
from sweet_rl.evaluation.comparison_table import Table
from sweet_rl.evaluation.statistics import interval_text
from sweet_rl.evaluation.two_level import two_level_ratio
from sweet_rl.mini import oracle
from sweet_rl.records import Task, TurnCandidates

WORTH = {"early": 0, "wrong": 0, "useless": 1, "repeated": 1, "spoils": 1, "useful": 2, "idle": 2, "repairs": 3}
WORTH |= {"complete": 4}
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
RESAMPLES = 1000
MARKUP = re.compile(r"<\|[a-z]+\|>")
Verdicts = Mapping[tuple[str, str], bool]
"""(id of the task, text of an answer) -> whether the answer is right."""


class JudgedTurn(NamedTuple):
    """A turn's candidates as the oracle and a critic judge them, equal texts once.

    Attributes:
        task: id of the task.
        turn: number of the turn, from 0.
        words: the oracle's word on each candidate.
        scores: the critic's score of each candidate.
    """

    task: str
    turn: int
    words: list[str]
    scores: list[float]


def last_answers(record: TurnCandidates) -> list[tuple[Task, str]]:
    """The candidates that answer with code after every rule was told, each once: `judged` needs a verdict on them.

    Raises:
        UserError: the task is not a mini task.
    """
    texts = _texts(record, None)
    if record.task.extra.get("mini") is None:
        return []  # the oracle of pages compares them itself
    return [(record.task, text) for text, word in zip(texts, _words(record, texts), strict=True) if word == "complete"]


def judged(record: TurnCandidates, right: Verdicts) -> JudgedTurn:
    """The turn of a ranked record.

    Args:
        right: the verdicts on its `last_answers`. One that is not right is `wrong`: no better than an early answer.

    Raises:
        UserError: it is not ranked, or its task is not a mini task.
    """
    texts = _texts(record, "judge_scores" if record.judge_scores is None else None)
    words = _with_verdicts(record, texts, right)
    return JudgedTurn(record.task.id, record.turn, words, [record.judge_scores[i] for i in texts.values()])


def judged_by_rows(record: TurnCandidates, right: Verdicts) -> dict[str, JudgedTurn]:
    """The turn by each row of a study (study_credit.py). Arguments and errors as of `judged`."""
    rows = record.extra.get("scores")
    texts = _texts(record, None if isinstance(rows, dict) else "scores")
    words = _with_verdicts(record, texts, right)
    return {
        name: JudgedTurn(record.task.id, record.turn, words, [scores[i] for i in texts.values()])
        for name, scores in rows.items()
    }


def _texts(record: TurnCandidates, missing: str | None) -> dict[str, int]:
    """Each different candidate with its place."""
    known = record.task is not None and (
        record.task.extra.get("mini") is not None or read_page(record.task.ground_truth) is not None
    )
    if missing or not known or isinstance(record.input, str):
        raise UserError(
            f"candidates {record.id}: need '{missing or 'judge_scores'}' (rank_best_of_n.py writes 'judge_scores', "
            "study_credit.py 'scores'), a mini task, and the input as parts."
        )
    return {text: place for place, text in enumerate(record.additional_outputs)}


def _with_verdicts(record: TurnCandidates, texts: Iterable[str], right: Verdicts) -> list[str]:
    words = _words(record, texts)
    if record.task.extra.get("mini") is None:
        return words
    key = record.task.id
    return [
        "wrong" if word == "complete" and not right[key, text] else word
        for word, text in zip(words, texts, strict=True)
    ]


def _words(record: TurnCandidates, texts: Iterable[str]) -> list[str]:
    earlier = [MARKUP.sub("", part["text"]) for part in record.input if part["train"]]
    dialogue = [{"role": "assistant", "content": text} for text in earlier]
    page = read_page(record.task.ground_truth)
    if page is not None:
        return [page_oracle.usefulness(page, dialogue, text) for text in texts]
    return [oracle.usefulness(record.task.extra["mini"], dialogue, text) for text in texts]


def pair_outcomes(words: Sequence[str], scores: Sequence[float]) -> list[tuple[str, float]]:
    """Compare a critic's scores with the oracle, for each pair of candidates of one turn.

    The order of the oracle is `WORTH`: a complete answer is better than any question, a useful question better than a
    useless or repeated one, and any question better than an early or wrong answer, which ends the dialogue. A page that
    repairs more parts than it spoils is better than an idle one, and an idle one better than one that spoils more.

    Args:
        words, scores: of `JudgedTurn`.

    Returns:
        (kind, outcome) for each pair of which the oracle prefers one: the kind is `better over worse`, for example
        `useful over repeated`; the outcome is 1 if the critic agrees, 0 if not, 0.5 for equal scores.
    """
    outcomes = []
    for (one, score_one), (other, score_other) in combinations(zip(words, scores, strict=True), 2):
        if WORTH[one] == WORTH[other]:
            continue
        better, worse, gap = one, other, score_one - score_other
        if WORTH[other] > WORTH[one]:
            better, worse, gap = other, one, -gap
        outcomes.append((f"{better} over {worse}", 0.5 * (1 + (gap > 0) - (gap < 0))))
    return outcomes


def credit_accuracy(seeds: Sequence[Iterable[JudgedTurn]], seed: int = 0) -> dict:
    """Return the share of pairs of candidates of one turn that the critic ranks as the oracle does; ties count half.

    Args:
        seeds: the turns of each seed of one critic.
        seed: of the bootstrap over seeds and tasks (`two_level_ratio`).

    Returns:
        groups: the three decisions of an agent: which question to ask (which page to draw), not to answer too early,
            and to answer when everything is told (drawn). Each has `accuracy`, its 95 % `interval`, `by_seed` (the
            accuracy of each seed), `pairs` and `by_turn` (turns count from 0). The accuracy of a group, or of a seed,
            without pairs is None.
        smallest: the smallest accuracy of a group that has pairs.
        by_kind: accuracy and pairs of each kind of `pair_outcomes`.
        candidates: counts of the oracle's words.

    Raises:
        UserError: no pair is about the first decision.
    """
    outcomes: dict[str, list[tuple[int, str, int, float]]] = defaultdict(list)
    words: Counter = Counter()
    for number, turns in enumerate(seeds):
        for turn in turns:
            words.update(turn.words)
            for kind, right in pair_outcomes(turn.words, turn.scores):
                outcomes[kind].append((number, turn.task, turn.turn, right))
    names = QUESTIONS if words.keys() & {"useful", "useless", "repeated"} else DRAFTS
    if not any(outcomes[kind] for kind in next(iter(names.values()))):
        raise UserError(
            "no turn has both a useful and a useless question (a repairing and another draft) among its candidates."
        )
    groups = {
        name: _group([row for kind in kinds for row in outcomes[kind]], len(seeds), seed)
        for name, kinds in names.items()
    }
    return {
        "groups": groups,
        "smallest": min(group["accuracy"] for group in groups.values() if group["pairs"]),
        "by_kind": {kind: _share([right for *_, right in rows]) for kind, rows in sorted(outcomes.items()) if rows},
        "candidates": dict(words),
    }


def _group(rows: list[tuple[int, str, int, float]], seeds: int, seed: int) -> dict:
    if not rows:
        return {"accuracy": None, "interval": None, "by_seed": [None] * seeds, "pairs": 0, "by_turn": {}}
    places = {task: place for place, task in enumerate(dict.fromkeys(task for _, task, *_ in rows))}
    right, pairs = np.zeros((2, seeds, len(places)))
    by_turn: dict[int, list[float]] = defaultdict(list)
    for number, task, turn, outcome in rows:
        right[number, places[task]] += outcome
        pairs[number, places[task]] += 1
        by_turn[turn].append(outcome)
    found = two_level_ratio(right, pairs, resamples=RESAMPLES, seed=seed)
    return {
        "accuracy": found.mean,
        "interval": [found.low, found.high],
        "by_seed": [float(r.sum() / n.sum()) if n.any() else None for r, n in zip(right, pairs, strict=True)],
        "pairs": len(rows),
        "by_turn": {turn: _share(rights) for turn, rights in sorted(by_turn.items())},
    }


def _share(rights: list[float]) -> dict:
    return {"accuracy": float(np.mean(rights)), "pairs": len(rights)}


def credit_markdown(results: Mapping[str, dict]) -> str:
    """Markdown tables: a summary with a row per critic, best first, and one per decision with the accuracy by turn.

    The summary has the accuracy of each decision with its interval, the smallest of them, by which it is sorted, and,
    for a study, the flags of rank_best_of_n.py (`flags` of a result).
    """
    return "\n".join([_summary(results), "", *_by_turn(results)])


def _summary(results: Mapping[str, dict]) -> str:
    names = list(dict.fromkeys(name for result in results.values() for name in result["groups"]))
    with_flags = any("flags" in result for result in results.values())
    cells = [["critic", *(f"{name}, %" for name in names), "smallest, %", *["flags"] * with_flags]]
    for name, result in sorted(results.items(), key=lambda item: -item[1]["smallest"]):
        groups = [result["groups"].get(name, {"pairs": 0}) for name in names]
        figures = [
            f"{100 * group['accuracy']:.1f} ({interval_text(*group['interval'])})" if group["pairs"] else ""
            for group in groups
        ]
        smallest = f"{100 * result['smallest']:.1f}"
        cells.append([name, *figures, smallest, *[f"`{result.get('flags', '')}`"] * with_flags])
    return Table(cells, len(names) + 1).markdown()


def _by_turn(results: Mapping[str, dict]) -> list[str]:
    groups = [group for result in results.values() for group in result["groups"].values()]
    turns = sorted({int(turn) for group in groups for turn in group["by_turn"]})
    lines = []
    for group in dict.fromkeys(name for result in results.values() for name in result["groups"]):
        cells = [[group, "%", "95 % interval", "pairs", *(f"turn {turn + 1}" for turn in turns)]]
        for name, result in results.items():
            found = result["groups"][group]
            by_turn = {int(turn): value for turn, value in found["by_turn"].items()}
            figures = ("", "")
            if found["pairs"]:
                figures = (f"{100 * found['accuracy']:.1f}", interval_text(*found["interval"]))
            shares = [f"{100 * by_turn[turn]['accuracy']:.1f}" if turn in by_turn else "" for turn in turns]
            cells.append([name, *figures, f"{found['pairs']:,}", *shares])
        lines += [Table(cells, len(cells[0]) - 1).markdown(), ""]
    return lines
