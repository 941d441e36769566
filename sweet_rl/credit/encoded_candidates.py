"""A turn's candidates as token ids, ready to be scored by a model."""

from __future__ import annotations

from sweet_rl.chat import ChatFormat
from sweet_rl.credit.candidate_texts import check_candidates, completion_part, prompt_parts
from sweet_rl.records import Part, TurnCandidates
from sweet_rl.scoring.privileged_information import with_hint
from sweet_rl.scoring.rows import EncodedText


def encoded_candidates(record: TurnCandidates, chat: ChatFormat, hint: bool) -> list[EncodedText]:
    """One text a candidate, all with the same prompt, which starts with the reference solution if `hint`.

    Raises UserError naming the record: no candidates, no task to take the solution from, an empty candidate.
    """
    check_candidates(record, hint)
    prompt: list[Part] = prompt_parts(record, chat.bos_text)
    if hint:
        prompt = with_hint(prompt, record.task.ground_truth)
    texts = []
    for i in range(len(record.additional_outputs)):
        part = completion_part(record, i, chat.eos_text)
        ids, train = chat.encode([*prompt, part], record.tokenizer)
        texts.append(EncodedText.build(ids, train, f"candidates {record.id!r}, candidate {i}"))
    return texts
