"""The parts of a turn's texts: the prompt o_t, which is not trained, and a candidate, which is."""

from __future__ import annotations

from sweet_rl.runs.records import Part, TurnCandidates


def prompt_parts(record: TurnCandidates, bos_text: str = "") -> list[Part]:
    """The turn's prompt as parts that are all untrained; the agent's earlier turns in it are marked `turn`.

    A prompt that is one string (released files) becomes one part of markup.

    Args:
        record: The candidates of a turn.
        bos_text: Text that becomes a part of its own if such a string begins with it, so that a hint can follow it.
    """
    if not isinstance(record.input, str):
        return [part | {"train": False} | ({"turn": True} if part["train"] else {}) for part in record.input]
    if bos_text and record.input.startswith(bos_text):
        bos: Part = {"text": bos_text, "train": False, "bos": True}
        return [bos, {"text": record.input.removeprefix(bos_text), "train": False}]
    return [{"text": record.input, "train": False}]


def completion_part(record: TurnCandidates, index: int, eos_text: str) -> Part:
    """Candidate `index` as the trained part, with its token ids if they are stored.

    It ends with `eos_text` if and only if the model produced the EOS (finish reason "stop"). Candidates without finish
    reasons (released files) count as finished.
    """
    reasons = record.additional_finish_reasons
    finished = reasons is None or reasons[index] == "stop"
    text = record.additional_outputs[index].removesuffix(eos_text) + (eos_text if finished else "")
    part: Part = {"text": text, "train": True}
    if record.additional_token_ids is not None and record.additional_token_ids[index]:
        part["token_ids"] = record.additional_token_ids[index]
    return part
