"""Belief gain: how much likelier a turn makes the reference solution as the agent's answer.

The score of candidate a is log p(c|o,a,r) - log p(c|o), where r is the human's reply and p(c|.) the likelihood of the
reference solution as the agent's next message, after the answer marker. The tokens of c are aggregated by `advantage`.

The reply is the record's own, if it has one (the turns of a dialogue, score_turns.py); else a human is asked. Without a
human it is an empty message. A candidate that is an answer has no reply and no next message. By Bayes'
rule log p(c|o,a) - log p(c|o) = log p(a|o,c) - log p(a|o), so such a candidate gets its pointwise information, which is
on the same scale: the right answer gains what was still uncertain about c, a wrong one loses.

If the model were consistent, Bayes' rule would make a turn's belief gain its pointwise information plus that of the
reply. No language model is, so the two err in different places; `PmiBeliefCritic` takes their mean.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sweet_rl.chat import ChatFormat
from sweet_rl.credit.candidate_texts import check_candidates, encoded_candidates
from sweet_rl.credit.critics import CriticSettings
from sweet_rl.credit.sweet_critic import VLLM_TURNS, LoadScorers, Score, TokenCritic, TokenLogps, load_scorers
from sweet_rl.domains import ANSWER_MARKER, Human
from sweet_rl.errors import UserError
from sweet_rl.log_probs.rows import EncodedText
from sweet_rl.model_loading import model_path
from sweet_rl.models.base import Message
from sweet_rl.models.thinking import without_thinking
from sweet_rl.records import Part, TurnCandidates, seed_for

REPLIES_AT_ONCE = 64


class BeliefGainCritic(TokenCritic):
    """Scores candidates by their belief gain.

    Args:
        chat: Chat format of the model.
        score: log-probs under the model.
        human: replies to each candidate; None for no reply.
        seed: Random seed of the human's replies. Equal candidates of a turn get the same reply.
        aggregation: normalize, clip, top_tokens, as of `TokenCritic`, over the tokens of the reference solution.
    """

    def __init__(
        self, chat: ChatFormat, score: Score, human: Human | None = None, *, seed: int = 0, **aggregation: Any
    ):
        super().__init__(chat, **aggregation)
        self._score, self._human, self._seed = score, human, seed
        self._asked = asyncio.Semaphore(REPLIES_AT_ONCE)

    @classmethod
    def load(
        cls, settings: CriticSettings, human: Human | None = None, load: LoadScorers | None = None
    ) -> BeliefGainCritic:
        """Load the model, on the GPU if there is one.

        Raises:
            UserError: it cannot be loaded, or the settings want replies and there is no `human`.
        """
        if settings.reply and human is None:
            raise UserError("--reply: no human is known here who could be asked. Leave it out.")
        path = model_path(settings.model_id)
        (score,) = (load or load_scorers)([path], settings)
        human = human if settings.reply else None
        made = cls(ChatFormat.from_pretrained(path), score, human, seed=settings.seed, **settings.aggregation)
        if settings.engine == "vllm":
            made.turns_per_call = VLLM_TURNS
        return made

    async def token_logps(self, records: Sequence[TurnCandidates]) -> list[list[TokenLogps]]:
        groups = await asyncio.gather(*map(self._texts, records))
        flat = [text for group in groups for pair in group for text in pair]
        found = iter(await asyncio.to_thread(self._score, flat))
        return [[(next(found), next(found)) for _ in group] for group in groups]

    async def _texts(self, record: TurnCandidates) -> list[tuple[EncodedText, EncodedText]]:
        """The two texts of each candidate, with and without what it adds."""
        check_candidates(record, hint=True)
        if record.dialogue is None:
            raise UserError(
                f"candidates {record.id!r}: no 'dialogue', so it cannot be continued. Sample the candidates again with "
                "sample_best_of_n.py."
            )
        spoken = [without_thinking(text) for text in record.additional_outputs]
        questions = [index for index, text in enumerate(spoken) if ANSWER_MARKER not in text]
        replies = dict(
            zip(questions, await asyncio.gather(*(self._reply(record, i, spoken[i]) for i in questions)), strict=True)
        )
        start = self._prompt(record, [])
        before = self._belief(record, start, start)
        texts = []
        for i, reply in replies.items():
            heard = [_message(record, i, spoken[i]), {"role": "user", "content": reply}]
            texts.append((self._belief(record, self._prompt(record, heard), start), before))
        if len(questions) == len(spoken):
            return texts
        by_place = dict(zip(questions, texts, strict=True))
        return [by_place.get(index, pair) for index, pair in enumerate(self._with_and_without_c(record))]

    def _with_and_without_c(self, record: TurnCandidates) -> list[tuple[EncodedText, EncodedText]]:
        """The two texts of each candidate's pointwise information."""
        return list(zip(*(encoded_candidates(record, self.chat, hint) for hint in (True, False)), strict=True))

    async def _reply(self, record: TurnCandidates, index: int, text: str) -> str:
        if record.additional_replies is not None:
            return record.additional_replies[index]
        if self._human is None:
            return ""
        dialogue = [*record.dialogue, {"role": "assistant", "content": text}]
        async with self._asked:
            reply = await self._human.reply(record.task, dialogue, seed_for(self._seed, record.id, text))
        return reply.text

    def _prompt(self, record: TurnCandidates, more: list[Message]) -> list[int]:
        """Token ids of the record's dialogue, followed by the messages `more`."""
        parts = self.chat.prompt([*record.dialogue, *more], record.tokenizer)
        return self.chat.encode([part | {"train": False} for part in parts], record.tokenizer)[0]

    def _belief(self, record: TurnCandidates, prompt: list[int], start: list[int]) -> EncodedText:
        """The reference solution, trained, as the agent's answer after `prompt`; `start` is computed once."""
        answer: list[Part] = [
            {"text": f"{ANSWER_MARKER}\n", "train": False},
            {"text": record.task.ground_truth, "train": True},
        ]
        ids, train = self.chat.encode(answer)
        shared = len(start) if prompt[: len(start)] == start else None
        where = f"candidates {record.id!r}: the reference solution"
        return EncodedText.build(prompt + ids, [False] * len(prompt) + train, where, shared)


class PmiBeliefCritic(BeliefGainCritic):
    """The mean of pointwise information and belief gain, both under one model, each aggregated over its own tokens."""

    async def _texts(self, record: TurnCandidates) -> list[tuple[EncodedText, EncodedText]]:
        """The texts of every candidate's belief gain, then those of its pointwise information; so are `token_logps`."""
        return [*await super()._texts(record), *self._with_and_without_c(record)]

    async def scores_by(
        self, records: Sequence[TurnCandidates], aggregations: Sequence[Mapping[str, Any]]
    ) -> list[list[list[float]]]:
        found = await super().scores_by(records, aggregations)
        return [[np.reshape(both, (2, -1)).mean(axis=0).tolist() for both in groups] for groups in found]


def _message(record: TurnCandidates, index: int, spoken: str) -> Message:
    """Candidate `index` as a message of the dialogue; `spoken` is its text without the reasoning."""
    message: Message = {"role": "assistant", "content": spoken, "output": record.additional_outputs[index]}
    if record.additional_finish_reasons is not None:
        message["finish_reason"] = record.additional_finish_reasons[index]
    if record.additional_token_ids is not None:
        message["token_ids"] = record.additional_token_ids[index]
    return message
