"""Belief gain: how much likelier a turn makes the reference solution as the agent's answer.

    python scripts/rank_best_of_n.py --critic_type lab/critics/belief_gain.py \
        --critic_settings '{"model_id": "mini", "env_model": "mini", "task_type": "mini"}' \
        --input_path candidates.jsonl --output_path ranked.jsonl

The score of candidate a is log p(c|o,a,r) - log p(c|o), where r is the human's reply and p(c|.) the likelihood of the
reference solution as the agent's next message, after the answer marker. The tokens of c are aggregated by `advantage`.

The reply is the record's own, if it has one (the turns of a dialogue, score_turns.py); else a human is asked. Without a
human it is an empty message. A candidate that is an answer has no reply and no next message. By Bayes'
rule log p(c|o,a) - log p(c|o) = log p(a|o,c) - log p(a|o), so such a candidate gets its pointwise information, which is
on the same scale: the right answer gains what was still uncertain about c, a wrong one loses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lab.critics.asked_human import AskedHuman
from sweet_rl.dialogues import ANSWER_MARKER, Domain, Human
from sweet_rl.method.advantage import TurnNormalize, advantage
from sweet_rl.method.candidate_texts import check_candidates, encoded_candidates
from sweet_rl.method.critics import CriticType
from sweet_rl.method.sweet_critic import Score, TokenCriticSettings, TokenLogps, load_scorers
from sweet_rl.models.base import Message
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.thinking import without_thinking
from sweet_rl.models.weights import model_path
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Part, TurnCandidates, seed_for

REPLIES_AT_ONCE = 64


@dataclass(frozen=True)
class BeliefGainSettings(AskedHuman, TokenCriticSettings):
    """The language model, and the human who is asked for a reply to each candidate.

    Attributes:
        seed: Random seed of the human's replies.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        AskedHuman.__post_init__(self)
        TokenCriticSettings.__post_init__(self)

    def to_settings(self) -> dict[str, Any]:
        """The settings that the scores depend on; the human by its name and hash."""
        names = ("model_id", "bf16", "normalize")
        asked = {"seed": self.seed, "human": self.identity()} if self.env_model else {}
        return {name: value for name, value in super().to_settings().items() if name in names} | asked


REPLIES = "additional_replies"
"""Field of a row of candidates: the human's reply to each, if it is known ("" for none)."""


class BeliefGainCritic:
    """Scores candidates by their belief gain.

    Args:
        chat: Chat format of the model's tokenizer.
        score: Log-probs under the model.
        human: Human who replies to each candidate; None for no reply.
        normalize: As in `advantage`, over the tokens of the reference solution.
        seed: Random seed of the human's replies. Equal candidates of a turn get the same reply.
        domain: Domain of the human, which says whether the human can play a task.
    """

    turns_per_call = 64

    def __init__(
        self,
        chat: ChatFormat,
        score: Score,
        human: Human | None = None,
        normalize: TurnNormalize = "turn",
        seed: int = 0,
        domain: Domain | None = None,
    ):
        self.chat, self.eos_text = chat, chat.eos_text
        self._score, self._human, self._normalize, self._seed, self._domain = score, human, normalize, seed, domain
        self._asked = asyncio.Semaphore(REPLIES_AT_ONCE)

    @classmethod
    def load(cls, settings: BeliefGainSettings) -> BeliefGainCritic:
        """Load the model, on the GPU if there is one, and the human. Raises UserError if one cannot be loaded."""
        (score,) = load_scorers([settings.model_id], settings)
        chat = ChatFormat.from_pretrained(model_path(settings.model_id))
        return cls(chat, score, settings.make(), settings.normalize, settings.seed, settings.domain)

    async def scores(self, records: Sequence[TurnCandidates]) -> list[list[float]]:
        """The belief gain of each candidate of each record."""
        return [[advantage(*pair, self._normalize) for pair in group] for group in await self.logps(records)]

    async def logps(self, records: Sequence[TurnCandidates]) -> list[list[TokenLogps]]:
        """For each record and candidate the log-probs that `advantage` compares."""
        groups = await asyncio.gather(*map(self._texts, records))
        flat = [text for group in groups for pair in group for text in pair]
        found = iter(await asyncio.to_thread(self._score, flat))
        return [[(next(found), next(found)) for _ in group] for group in groups]

    async def close(self) -> None:
        """Close the human's model."""
        model = getattr(self._human, "model", None)
        if model is not None:
            await model.close()

    async def _texts(self, record: TurnCandidates) -> list[tuple[EncodedText, EncodedText]]:
        """The two texts of each candidate, with and without what it adds."""
        check_candidates(record, hint=True)
        if record.dialogue is None:
            raise UserError(
                f"candidates {record.id!r}: no 'dialogue', so it cannot be continued. Sample the candidates again with "
                "sample_best_of_n.py."
            )
        if self._human is not None and self._domain is not None and REPLIES not in record.extra:
            self._domain.check([record.task], f"candidates {record.id!r}")
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
        if REPLIES in record.extra:
            return record.extra[REPLIES][index]
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


CRITIC = CriticType(BeliefGainSettings, BeliefGainCritic.load)


def _message(record: TurnCandidates, index: int, spoken: str) -> Message:
    """Candidate `index` as a message of the dialogue; `spoken` is its text without the reasoning."""
    message: Message = {"role": "assistant", "content": spoken, "output": record.additional_outputs[index]}
    if record.additional_finish_reasons is not None:
        message["finish_reason"] = record.additional_finish_reasons[index]
    if record.additional_token_ids is not None:
        message["token_ids"] = record.additional_token_ids[index]
    return message
