"""The texts that a critic scores: a turn's prompt o_t, with the privileged information c if wanted, and a candidate."""

from __future__ import annotations

from sweet_rl.method.privileged_information import with_hint
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import check_length
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Message, Part, TurnCandidates


def prompt_parts(record: TurnCandidates, bos_text: str = "") -> list[Part]:
    """The turn's prompt as parts that are all untrained; the agent's earlier turns in it are marked `turn`.

    A prompt that is one string (released files) becomes one part of markup; if it begins with `bos_text`, that becomes
    a part of its own, so that a hint can follow it.
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


def encoded_candidates(record: TurnCandidates, chat: ChatFormat, hint: bool) -> list[EncodedText]:
    """The token ids of each candidate after the turn's prompt, which with `hint` shows the reference solution.

    Raises UserError if the record has no candidates, no task to take the solution from, or a candidate that is empty or
    too long for the model of `chat`.
    """
    check_candidates(record, hint)
    prompt = prompt_parts(record, chat.bos_text)
    if hint:
        prompt = with_hint(prompt, reference_solution(record))
    texts = []
    for i in range(len(record.additional_outputs)):
        where = f"{record.place('candidates')}, candidate {i}"
        parts = [*prompt, completion_part(record, i, chat.eos_text)]
        text = EncodedText.build(*chat.encode(parts, record.tokenizer, where), where)
        check_length(len(text), chat.context, where, "Remove the record, or rank with a model that has a longer one.")
        texts.append(text)
    return texts


def sampling_logprobs(record: TurnCandidates, normalize: str = "turn") -> list[list[float]] | list[float]:
    """The log-probs with which the candidates were sampled: for each candidate [tokens], or their mean.

    With `normalize` "none" a released record's sums are given, each as a list of one. Raises UserError if the record
    does not have log-probs, or not one for each token.
    """
    values = record.additional_reference_logprobs
    sums = record.extra.get("additional_reference_logprobs_sum")
    if normalize == "none" and isinstance(sums, list) and len(sums) == len(record.additional_outputs):
        return [[float(value)] for value in sums]
    if values is None or any(isinstance(value, list) and not value for value in values):
        raise UserError(
            f"candidates {record.id!r}: no sampling log-probs (additional_reference_logprobs). Give "
            "--reference seed_without_c, with --reference_model_id MODEL if the critic's folder does not name its seed."
        )
    record.check_logprobs(f"candidates {record.id!r}")
    return values


def check_candidates(record: TurnCandidates, hint: bool) -> None:
    """Raise UserError if a record has no candidates or, with `hint`, no task."""
    if not record.additional_outputs:
        raise UserError(
            f"candidates {record.id!r}: additional_outputs is empty. Sample candidates with sample_best_of_n.py."
        )
    if hint:
        reference_solution(record)


def reference_solution(record: TurnCandidates) -> str:
    """The reference solution of the record's task. Raises UserError if the record has no task."""
    if record.task is None:
        raise UserError(
            f"candidates {record.id!r}: no 'task', so there is no reference solution to show the critic. Rank with "
            "--no_prompt, or sample the candidates again with sample_best_of_n.py."
        )
    return record.task.ground_truth


def dialogue_of(record: TurnCandidates) -> list[Message]:
    """The messages before the turn. Raises UserError if the record does not have them."""
    if record.dialogue is None:
        raise UserError(
            f"candidates {record.id!r}: no 'dialogue', the messages before the turn. Sample the candidates again with "
            "sample_best_of_n.py."
        )
    return record.dialogue
