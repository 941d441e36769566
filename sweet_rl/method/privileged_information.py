"""Privileged information: the training-time information c of the paper, which the critic sees and the policy never.

In ColBench c is the reference solution. Its text stands before the dialogue, after the BOS, as in the released code. A
vision-language critic sees the picture of the reference page in its place, between the same texts.
"""

from __future__ import annotations

from collections.abc import Sequence

from sweet_rl.runs.records import Part

BEFORE, AFTER = "In light that the final answer is: ", ".\n"
"""The texts around c."""


def hint_text(ground_truth: str) -> str:
    """The text that shows c."""
    return BEFORE + ground_truth + AFTER


def with_hint(parts: Sequence[Part], ground_truth: str) -> list[Part]:
    """The parts of a dialogue or prompt with c, the reference solution, in front (`with_text`)."""
    return with_text(parts, hint_text(ground_truth))


def with_text(parts: Sequence[Part], text: str) -> list[Part]:
    """The parts with a text in front, after the BOS, which is not trained and spells no special token."""
    after = 1 if parts and parts[0].get("bos") else 0
    shown: Part = {"text": text, "train": False, "plain": True}
    return [*parts[:after], shown, *parts[after:]]
