"""Credit accuracy: how often a critic ranks the better of two turns first, as judged by an oracle."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np

from sweet_rl.dialogues.backend.environment import CodeGrading, make_grader
from sweet_rl.dialogues.mini import oracle
from sweet_rl.evaluation.statistics import two_level_interval
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.progress import progress_bar
from sweet_rl.runs.records import Message, Task, TurnCandidates, read_records

RESAMPLES = 1000
MARKUP = re.compile(r"<\|[a-z]+\|>")
Verdicts = Mapping[tuple[str, str], bool]
"""(id of the task, text of an answer) -> whether the answer is right."""


WORTH = {"early": 0, "wrong": 0, "useless": 1, "repeated": 1, "none": 1, "decided": 1, "useful": 2, "complete": 4}
"""Worth of each of the oracles' words; of two turns the one with the larger worth is better. Only in ciphered tasks
there are `none` (no question) and `decided` (all candidates of a turn that changes nothing)."""
DECISIONS = {
    "useful over useless question": ("useful over useless", "useful over repeated"),
    "question over early answer": ("useful over early", "useless over early", "repeated over early"),
    "complete answer over question": ("complete over useless", "complete over repeated"),
}
"""The agent's decisions, each with its kinds of pairs."""


class JudgedTurn(NamedTuple):
    """A turn's candidates as the oracle and a critic judge them, equal texts once.

    Attributes:
        task: Identifier of the task.
        turn: Number of the turn, from 0.
        words: The oracle's word on each candidate.
        scores: The critic's score of each candidate.
    """

    task: str
    turn: int
    words: list[str]
    scores: list[float]


def last_answers(record: TurnCandidates) -> list[tuple[Task, str]]:
    """The candidates that answer with code after every rule was told, each once: `judged` needs a verdict on them.

    Raises:
        UserError: The task is not a mini task.
    """
    task, earlier = _mini_task(record, None), agent_messages(record)
    texts = dict.fromkeys(record.additional_outputs)
    return [(task, text) for text in texts if oracle.usefulness(task.extra["mini"], earlier, text) == "complete"]


def read_judged(paths: Sequence[str], right: dict[tuple[str, str], bool]) -> list[list[TurnCandidates]]:
    """The records of each file. `right` gets the verdicts on their `last_answers` that it does not have yet.

    Raises:
        UserError: A task is not a mini task, or an answer could not be graded.
    """
    files = [list(read_records(path, TurnCandidates)) for path in paths]
    answers = {(task.id, text): (task, text) for rows in files for row in rows for task, text in last_answers(row)}
    if jobs := {key: job for key, job in answers.items() if key not in right}:
        with make_grader(CodeGrading()) as grader:
            grades = grader.grade_many(progress_bar(jobs.values(), desc="answers"))
            rewards = {key: grade.reward for key, grade in zip(jobs, grades, strict=True)}
        if None in rewards.values():
            raise UserError("an answer could not be graded on this machine: see evaluate_code.py.")
        right |= {key: reward == 1.0 for key, reward in rewards.items()}
    return files


def judged(record: TurnCandidates, right: Verdicts) -> JudgedTurn:
    """The turn of a ranked record of a mini task.

    Args:
        record: The ranked candidates of a turn.
        right: Verdicts on its `last_answers`. One that is not right is `wrong`: no better than an early answer.

    Raises:
        UserError: The record is not ranked, or its task is not a mini task.
    """
    scores = record.judge_scores
    task = _mini_task(record, "judge_scores" if scores is None else None)
    return judged_turn(record, scores or [], partial(_word, task, right))


def judged_turn(
    record: TurnCandidates, scores: Sequence[float], word: Callable[[list[Message], str], str]
) -> JudgedTurn:
    """The turn of a ranked record by any oracle.

    Args:
        record: The candidates of the turn, with the input as parts.
        scores: The critic's score of each candidate.
        word: Function that returns the oracle's word on a candidate.
    """
    places = {text: place for place, text in enumerate(record.additional_outputs)}
    earlier = agent_messages(record)
    words = [word(earlier, text) for text in places]
    task = record.task.id if record.task else record.id
    return JudgedTurn(task, record.turn or 0, words, [scores[place] for place in places.values()])


def agent_messages(record: TurnCandidates) -> list[Message]:
    """The agent's messages before the turn, without the markup of the mini agents' chat template."""
    parts = [] if isinstance(record.input, str) else record.input
    earlier = [MARKUP.sub("", part["text"]) for part in parts if part["train"]]
    return [{"role": "assistant", "content": text} for text in earlier]


def _mini_task(record: TurnCandidates, missing: str | None) -> Task:
    """The task. Raises UserError if it has no hidden rules, or the field `missing` or the parts of the input lack."""
    task = record.task
    if missing or task is None or task.extra.get("mini") is None or isinstance(record.input, str):
        raise UserError(
            f"candidates {record.id}: need '{missing or 'judge_scores'}' (rank_best_of_n.py writes it), a mini task, "
            "and the input as parts."
        )
    return task


def _word(task: Task, right: Verdicts, earlier: list[Message], text: str) -> str:
    word = oracle.usefulness(task.extra["mini"], earlier, text)
    return "wrong" if word == "complete" and not right[task.id, text] else word


def pair_outcomes(words: Sequence[str], scores: Sequence[float]) -> list[tuple[str, float]]:
    """Compare a critic's scores with the oracle, for each pair of candidates of one turn.

    In the mini tasks a complete answer is better than any question, a useful question better than a useless or repeated
    one, and any question better than an early or wrong answer, which ends the dialogue.

    Args:
        words: The oracle's word on each candidate.
        scores: The critic's score of each candidate.

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
        seeds: The turns of each seed of one critic.
        seed: Random seed of the bootstrap over seeds and tasks (`two_level_interval`).

    Returns:
        groups: The decisions of the agent: which question to ask, not to answer too early, and to answer when
            everything is told. Each has `accuracy`, its 95 % `interval`, `by_seed` (the accuracy of each seed) and
            `pairs`. The accuracy of a group, or of a seed, without pairs is None.
        smallest: The smallest accuracy of a group that has pairs.
        candidates: Counts of the oracle's words.

    Raises:
        UserError: No pair is about the first decision.
    """
    outcomes: dict[str, list[tuple[int, str, float]]] = defaultdict(list)
    words: Counter = Counter()
    for number, turns in enumerate(seeds):
        for turn in turns:
            words.update(turn.words)
            for kind, right in pair_outcomes(turn.words, turn.scores):
                outcomes[kind].append((number, turn.task, right))
    first = next(iter(DECISIONS))
    if not any(outcomes[kind] for kind in DECISIONS[first]):
        raise UserError(f"no turn has candidates for the decision '{first}'.")
    groups = {
        name: _group([row for kind in kinds for row in outcomes[kind]], len(seeds), seed)
        for name, kinds in DECISIONS.items()
    }
    return {
        "groups": groups,
        "smallest": min(group["accuracy"] for group in groups.values() if group["pairs"]),
        "candidates": dict(words),
    }


def _group(rows: list[tuple[int, str, float]], seeds: int, seed: int) -> dict:
    if not rows:
        return {"accuracy": None, "interval": None, "by_seed": [None] * seeds, "pairs": 0}
    places = {task: place for place, task in enumerate(dict.fromkeys(task for _, task, _ in rows))}
    right, pairs = np.zeros((2, seeds, len(places)))
    for number, task, outcome in rows:
        right[number, places[task]] += outcome
        pairs[number, places[task]] += 1
    found = two_level_interval(right, seed, denominators=pairs, resamples=RESAMPLES)
    return {
        "accuracy": found.mean,
        "interval": [found.low, found.high],
        "by_seed": [float(r.sum() / n.sum()) if n.any() else None for r, n in zip(right, pairs, strict=True)],
        "pairs": len(rows),
    }
