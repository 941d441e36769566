"""A turn's candidates as texts: the prompt o_t, untrained, and after it the candidate, trained."""

from __future__ import annotations

from sweet_rl.errors import UserError
from sweet_rl.records import Part, TurnCandidates


def prompt_parts(record: TurnCandidates, bos_text: str = "") -> list[Part]:
    """The turn's prompt with nothing in it trained: earlier turns of the agent are history here, marked `turn`.

    A string (released files) is one part of markup, its BOS split off so that a hint can go after it.
    """
    if not isinstance(record.input, str):
        return [part | {"train": False} | ({"turn": True} if part["train"] else {}) for part in record.input]
    if bos_text and record.input.startswith(bos_text):
        bos = {"text": bos_text, "train": False, "bos": True}
        return [bos, {"text": record.input.removeprefix(bos_text), "train": False}]
    return [{"text": record.input, "train": False}]


def completion_part(record: TurnCandidates, index: int, eos_text: str) -> Part:
    """Candidate `index` as the trained part; it ends with the EOS iff the model produced one.

    Rows without finish reasons (released files) are taken as finished.
    """
    reasons = record.additional_finish_reasons
    finished = reasons is None or reasons[index] == "stop"
    text = record.additional_outputs[index].removesuffix(eos_text) + (eos_text if finished else "")
    part: Part = {"text": text, "train": True}
    if record.additional_token_ids is not None:
        part["token_ids"] = record.additional_token_ids[index]
    return part


def check_candidates(record: TurnCandidates, hint: bool) -> None:
    """Raises UserError naming a record without candidates, or, if `hint`, without the task it is about."""
    if not record.additional_outputs:
        raise UserError(
            f"candidates {record.id!r}: additional_outputs is empty. Sample candidates with sample_best_of_n.py."
        )
    if hint and record.task is None:
        raise UserError(
            f"candidates {record.id!r}: no 'task', so there is no reference solution to show the critic. Rank with "
            "--no_prompt, or sample the candidates again with sample_best_of_n.py."
        )
