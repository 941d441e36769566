"""Belief gain: how much likelier a turn makes the reference solution as the agent's answer.

    python scripts/rank_best_of_n.py --critic_type lab/critics/belief_gain.py \
        --critic_settings '{"model_id": "mini"}' --input_path candidates.jsonl --output_path ranked.jsonl

The reward of a turn in TRACE (arXiv 2607.13988), and like PMI without training. The score of candidate a is
log p(c|o,a,r) - log p(c|o), where r is the human's reply, and p(c|.) the likelihood of the reference solution as the
agent's next message, after the answer marker. `advantage` adds up the tokens of c.

A reply that the record has is taken (the turns of a finished dialogue, score_turns.py); otherwise the reply is empty.
An answer has no reply and no next message. By Bayes' rule log p(c|o,a) - log p(c|o) = log p(a|o,c) - log p(a|o), so it
gets its PMI, which is on the same scale: the right answer gains what was still uncertain about c, a wrong one loses.
"""

from __future__ import annotations

from collections.abc import Sequence

from sweet_rl.dialogues import ANSWER_MARKER
from sweet_rl.method.advantage import TurnNormalize
from sweet_rl.method.candidate_texts import check_candidates, dialogue_of, encoded_candidates, reference_solution
from sweet_rl.method.critics import CriticType
from sweet_rl.method.sweet_critic import (
    CriticAndReference,
    LogRatioCritic,
    PmiSettings,
    TokenScorer,
    load_models,
    scored,
)
from sweet_rl.method.turn_credit import REPLIES
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.models.texts.chat import ChatFormat, spoken_candidates
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Message, Part, TurnCandidates


class BeliefGainCritic(LogRatioCritic):
    """Scores candidates by their belief gain.

    Args:
        chat: Chat format of the model's tokenizer.
        model: Log-probs under the model.
        normalize: As in `advantage`, over the tokens of the reference solution.
    """

    token_credit = None  # because the tokens are those of the solution, not of the turn

    def __init__(self, chat: ChatFormat, model: TokenScorer, normalize: TurnNormalize = "turn"):
        super().__init__(chat, model, None, normalize=normalize)
        self._model = model

    @classmethod
    def load(cls, settings: PmiSettings) -> BeliefGainCritic:
        """Load the model, on the GPU if there is one. Raises UserError if it cannot be loaded."""
        chat, (model,) = load_models(settings)
        return cls(chat, model, settings.normalize)

    async def logps(self, records: Sequence[TurnCandidates]) -> list[list[CriticAndReference]]:
        """For each record and candidate the log-probs of the reference solution after the turn, and before it."""
        groups = [self._texts(record) for record in records]
        found = iter(await scored(self._model, [text for group in groups for pair in group for text in pair]))
        return [[(next(found), next(found)) for _ in group] for group in groups]

    def _texts(self, record: TurnCandidates) -> list[tuple[EncodedText, EncodedText]]:
        """The two texts of each candidate, with and without what it adds."""
        check_candidates(record, hint=True)
        spoken = spoken_candidates(record)
        questions = [index for index, text in enumerate(spoken) if ANSWER_MARKER not in text]
        replies = _replies(record)
        before = self._belief(record, self._prompt(record, []))
        by_place = {}
        for index in questions:
            heard: list[Message] = [_message(record, index, spoken[index]), {"role": "user", "content": replies[index]}]
            by_place[index] = (self._belief(record, self._prompt(record, heard)), before)
        if len(questions) == len(spoken):
            return list(by_place.values())
        return [by_place.get(index, pair) for index, pair in enumerate(self._with_and_without_c(record))]

    def _with_and_without_c(self, record: TurnCandidates) -> list[tuple[EncodedText, EncodedText]]:
        """The two texts of each candidate's pointwise information."""
        return list(zip(*(encoded_candidates(record, self.chat, hint) for hint in (True, False)), strict=True))

    def _prompt(self, record: TurnCandidates, more: list[Message]) -> list[int]:
        """Token ids of the record's dialogue, followed by the messages `more`."""
        parts = self.chat.prompt([*dialogue_of(record), *more], record.tokenizer)
        return self.chat.encode([part | {"train": False} for part in parts], record.tokenizer)[0]

    def _belief(self, record: TurnCandidates, prompt: list[int]) -> EncodedText:
        """The reference solution, trained, as the agent's answer after `prompt`."""
        answer: list[Part] = [
            {"text": f"{ANSWER_MARKER}\n", "train": False},
            {"text": reference_solution(record), "train": True},
        ]
        ids, train = self.chat.encode(answer)
        where = f"candidates {record.id!r}: the reference solution"
        return EncodedText.build(prompt + ids, [False] * len(prompt) + train, where)


def _replies(record: TurnCandidates) -> list[str]:
    """The human's reply to each candidate; empty ones if the record has none."""
    replies = record.extra.get(REPLIES, [""] * len(record.additional_outputs))
    if not isinstance(replies, list) or len(replies) != len(record.additional_outputs):
        raise UserError(f"{record.place('candidates')}: {REPLIES} must hold one reply for each candidate.")
    return replies


def _message(record: TurnCandidates, index: int, spoken: str) -> Message:
    """Candidate `index` as a message of the dialogue; `spoken` is its text without the reasoning."""
    message: Message = {"role": "assistant", "content": spoken, "output": record.additional_outputs[index]}
    if record.additional_finish_reasons is not None:
        message["finish_reason"] = record.additional_finish_reasons[index]
    if record.additional_token_ids is not None:
        message["token_ids"] = record.additional_token_ids[index]
    return message


CRITIC = CriticType(PmiSettings, BeliefGainCritic.load)
