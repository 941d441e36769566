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
from sweet_rl.credit.log_ratio import (
    VLLM_TURNS,
    LoadScorers,
    LogRatioCritic,
    Score,
    TokenCritic,
    TokenLogps,
    load_scorers,
)
from sweet_rl.environments.base import ANSWER_MARKER
from sweet_rl.errors import UserError
from sweet_rl.humans.base import Human
from sweet_rl.models.base import Message
from sweet_rl.models.thinking import without_thinking
from sweet_rl.names import model_path
from sweet_rl.records import Part, TurnCandidates, seed_for
from sweet_rl.scoring.rows import EncodedText

REPLIES_AT_ONCE = 64


class BeliefGainCritic(TokenCritic):
    """Scores candidates by their belief gain.

    Args:
        chat: of the model's tokenizer.
        score: log-probs under the model.
        human: replies to each candidate; None for no reply.
        normalize, clip, top_tokens: as in `advantage`, over the tokens of the reference solution.
        seed: of the human's replies. Equal candidates of a turn get the same reply.
    """

    def __init__(
        self,
        chat: ChatFormat,
        score: Score,
        human: Human | None = None,
        normalize: str = "turn",
        clip: float | None = None,
        top_tokens: int = 5,
        seed: int = 0,
    ):
        super().__init__(chat, normalize, clip, top_tokens)
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
        made = cls(ChatFormat.from_pretrained(path), score, human, **settings.aggregation, seed=settings.seed)
        if settings.engine == "vllm":
            made.turns_per_call = VLLM_TURNS
        return made

    async def token_logps(self, records: Sequence[TurnCandidates]) -> list[list[TokenLogps]]:
        pairs = [pair for group in await asyncio.gather(*map(self._texts, records)) for pair in group]
        found = await asyncio.to_thread(self._score, [text for pair in pairs for text in pair])
        logps = iter(zip(found[::2], found[1::2], strict=True))
        return [[next(logps) for _ in record.additional_outputs] for record in records]

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
        answers = zip(*(encoded_candidates(record, self.chat, hint) for hint in (True, False)), strict=True)
        return [by_place.get(index, pair) for index, pair in enumerate(answers)]

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

    def __init__(self, chat: ChatFormat, score: Score, *more: Any, **settings: Any):
        super().__init__(chat, score, *more, **settings)
        self._pmi = LogRatioCritic(chat, score, score, reference_hint=False)

    async def scores_by(
        self, records: Sequence[TurnCandidates], aggregations: Sequence[Mapping[str, Any]]
    ) -> list[list[list[float]]]:
        gains = await super().scores_by(records, aggregations)
        informations = await self._pmi.scores_by(records, aggregations)
        return [
            [np.mean(both, axis=0).tolist() for both in zip(*rows, strict=True)]
            for rows in zip(gains, informations, strict=True)
        ]


def _message(record: TurnCandidates, index: int, spoken: str) -> Message:
    """Candidate `index` as a message of the dialogue; `spoken` is its text without the reasoning."""
    message: Message = {"role": "assistant", "content": spoken, "output": record.additional_outputs[index]}
    if record.additional_finish_reasons is not None:
        message["finish_reason"] = record.additional_finish_reasons[index]
    if record.additional_token_ids is not None:
        message["token_ids"] = record.additional_token_ids[index]
    return message
