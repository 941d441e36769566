"""Records as plain dicts for the template: dialogues, the candidates of a turn, and pairs."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from sweet_rl.dialogues.answer_environment import ANSWER_MARKER
from sweet_rl.dialogues.frontend.extract_page import without_pages
from sweet_rl.method.turn_pairs import halves
from sweet_rl.runs.records import Part, PreferencePair, Trajectory, TurnCandidates
from sweet_rl.viewer.designs import Pictures, shown_page

TITLE = 120  # characters
LEVELS = 4  # of a colour, for and against

OUTCOMES = {"success": "success", "other": "no success", "ungraded": "not graded"}
"""Outcomes that the filter of the page distinguishes; a success has the reward 1."""


def dialogue_view(
    trajectory: Trajectory,
    credit: Sequence[dict] | None = None,
    pictures: Pictures | None = None,
) -> dict[str, Any]:
    """A dialogue: its messages with credit and pictures, its tests, its answer beside the reference.

    Args:
        trajectory: The dialogue.
        credit: Rows of `TurnScorer.rows`; by default the record's own `turn_credit`.
        pictures: Pictures of the pages of a frontend dialogue. The messages then have no source text of pages.
    """
    if credit is None:
        credit = [{"turn": turn, "advantage": value} for turn, value in enumerate(trajectory.turn_credit or ())]
    by_turn = {row["turn"]: credit_view(row) for row in credit}
    reference, grade = trajectory.task.ground_truth, trajectory.grade or {}
    why_none = [grade.get(name) for name in ("failure", "ungradable", "machine")]
    messages, turn = [], 0
    for row in trajectory.dialogue_history:
        message: dict[str, Any] = {"role": row["role"], "text": row["content"]}
        messages.append(message)
        if row["role"] != "assistant":
            continue
        message |= {"turn": turn + 1, "credit": by_turn.get(turn), "oracle": row.get("oracle")}
        message["cut"] = row.get("finish_reason") == "length"
        page = shown_page(row["content"]) if pictures else None
        if pictures and page:
            message |= {"source": page, "text": without_pages(row["content"], "[page]")}
            message |= {"picture": pictures[page], "similarity": pictures.similarity(page, reference)}
        else:
            text, marker, answer = row["content"].partition(ANSWER_MARKER)
            message |= {"text": text + marker, "code": answer.strip("\n")} if marker else {}
        turn += 1
    view: dict[str, Any] = {
        "id": trajectory.id,
        "title": title_of(trajectory.task.problem_description),
        "outcome": outcome(trajectory),
        "reward": trajectory.reward,
        "facts": [f"{turn} turns", (trajectory.ending or "").replace("_", " "), *filter(None, why_none)],
        "failure": trajectory.failure,
        "messages": messages,
        "tests": tests_view(trajectory),
        "answer": trajectory.answer,
        "reference": reference,
        "parts": parts_of(trajectory.parts or ()),
    }
    if pictures is not None:
        view["reference_picture"] = pictures[reference]
    return view


def outcome(trajectory: Trajectory) -> str:
    """A key of OUTCOMES."""
    if not trajectory.is_graded:
        return "ungraded"
    return "success" if trajectory.reward == 1 else "other"


def tests_view(trajectory: Trajectory) -> list[dict]:
    """The hidden tests {call, passed, text}; `passed` is None for a test that was not run."""
    grade = trajectory.grade or {}
    results = grade.get("tests")
    by_name = {row.get("name"): row for row in results or () if isinstance(row, dict)}
    tests = []
    for name, call in trajectory.task.test_cases.items():
        result = by_name.get(name, {})
        texts = [str(result[key]) for key in ("reason", "message") if result.get(key)]
        tests.append({"call": call, "passed": result.get("passed"), "text": ": ".join(texts)})
    return tests


def candidates_view(record: TurnCandidates) -> list[dict]:
    """The candidates {text, credit, half, taken} of a turn, best first if they are ranked."""
    top, bottom = halves(record.judge_result or [])
    views = []
    for number in record.judge_result or range(len(record.additional_outputs)):
        text = record.additional_outputs[number]
        score = record.judge_scores[number] if record.judge_scores is not None else None
        views.append(
            {
                "text": text,
                "credit": None if score is None else {"value": score},
                "half": "upper" if number in top else "lower" if number in bottom else "",
                "taken": text == record.older_output,
            }
        )
    return views


def turn_view(record: TurnCandidates) -> dict[str, Any]:
    """A record of candidates: the prompt of the turn, and the candidates."""
    title = title_of(record.task.problem_description) if record.task else record.id
    return {
        "id": record.id,
        "title": title if record.turn is None else f"Turn {record.turn + 1}: {title}",
        "facts": [f"{len(record.additional_outputs)} candidates"],
        "parts": parts_of(record.input),
        "candidates": candidates_view(record),
    }


def pair_view(pair: PreferencePair) -> dict[str, Any]:
    """A pair: the text that both sides share, and the chosen and the rejected text after it."""
    chosen, rejected = parts_of(pair.chosen), parts_of(pair.rejected)
    shared = [one for one, _ in takewhile(lambda two: two[0] == two[1], zip(chosen, rejected, strict=False))]
    chosen, rejected = chosen[len(shared) :], rejected[len(shared) :]
    if isinstance(pair.chosen, str) and chosen and rejected:  # one part each: what their first lines share
        prefix = os.path.commonprefix([chosen[0]["text"], rejected[0]["text"]])
        prefix = prefix[: prefix.rfind("\n") + 1]
        shared = parts_of(prefix)
        chosen, rejected = (parts_of(side[0]["text"].removeprefix(prefix)) for side in (chosen, rejected))
    rewards = {key: pair.extra.get(key) for key in ("chosen_reward", "rejected_reward")}
    facts = [f"{key.replace('_', ' ')} {value}" for key, value in rewards.items() if value is not None]
    return {"id": pair.id, "title": pair.id, "facts": facts, "parts": shared, "chosen": chosen, "rejected": rejected}


def parts_of(text: str | Sequence[Part]) -> list[dict]:
    """The parts {text, train} of a text as the model reads it; a plain text is one part."""
    if isinstance(text, str):
        return [{"text": text, "train": False}]
    return [{"text": part["text"], "train": part["train"]} for part in text]


def credit_view(row: Mapping[str, Any]) -> dict[str, Any]:
    """The credit of a turn {value, tokens?}; each token is {text, value}, its log-ratio."""
    credit: dict[str, Any] = {"value": row["advantage"]}
    if row.get("reference") is not None:
        ratios = np.subtract(row["critic"], row["reference"]).tolist()
        credit["tokens"] = [{"text": t, "value": r} for t, r in zip(row["tokens"], ratios, strict=True)]
    return credit


def set_levels(credits: Sequence[dict]) -> None:
    """Give each {value} its `level` of colour, from -LEVELS (against) to LEVELS (for).

    The 95th percentile of the absolute values has the strongest colour, so that one outlier does not pale the others.
    The scale is one of square roots, because sums over long answers are far larger than those over questions.
    """
    if not credits:
        return
    scale = float(np.percentile([abs(credit["value"]) for credit in credits], 95)) or 1.0
    for credit in credits:
        share = min(1.0, abs(credit["value"]) / scale)
        credit["level"] = round(math.copysign(math.sqrt(share), credit["value"]) * LEVELS)


def title_of(text: str) -> str:
    """The first line of a text that says something, shortened."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= TITLE else f"{line[:TITLE].rsplit(' ', 1)[0]}…"
