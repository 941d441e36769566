"""Rows of candidates and pairs as the authors' release writes them, turned into the rows that the records here read."""

from __future__ import annotations

from typing import Any


def candidates_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row of candidates with `dialogue`, `task` and indices in `judge_result`.

    Released rows have `messages` (the dialogue up to and with the turn) and `ground_truth` instead of dialogue and
    task. Their `judge_result` holds scores: anything but whole numbers that name each candidate once.
    """
    row = dict(row)
    messages, solution = row.get("messages"), row.get("ground_truth")
    history = messages if isinstance(messages, list) and all(isinstance(one, dict) for one in messages) else []
    if history and row.get("dialogue") is None:
        row["dialogue"] = history[:-1] if history[-1].get("role") == "assistant" else history
    if row.get("task") is None and isinstance(solution, str):
        opening = history[0].get("content") if history else ""
        row["task"] = {"problem_description": opening, "ground_truth": solution}
    scores = row.get("judge_result")
    if row.get("judge_scores") is None and scores is not None and _are_scores(scores):
        row["judge_scores"] = scores
        row["judge_result"] = sorted(range(len(scores)), key=lambda i: -scores[i])
    return row


def pair_row(row: dict[str, Any]) -> dict[str, Any]:
    """A pair whose texts are whole.

    A released text may be {input, output}, which become one string. With a `prompt` beside them, the texts become
    parts: the prompt is not trained, all of `chosen` and `rejected` is.
    """
    row = dict(row)
    for side in ("chosen", "rejected"):
        text = row.get(side)
        if isinstance(text, dict) and isinstance(text.get("input"), str) and isinstance(text.get("output"), str):
            row[side] = text["input"] + text["output"]
    texts = [row.get(name) for name in ("prompt", "chosen", "rejected")]
    if all(isinstance(text, str) for text in texts):
        prompt = row.pop("prompt")
        for side in ("chosen", "rejected"):
            row[side] = [{"text": prompt, "train": False}, {"text": row[side], "train": True}]
    return row


def _are_scores(values: Any) -> bool:
    """Whether a `judge_result` is a list of numbers, but not of indices."""
    if not isinstance(values, list) or not all(type(value) in (int, float) for value in values):
        return False
    whole = all(type(value) is int for value in values)
    return not (whole and sorted(values) == list(range(len(values))))
