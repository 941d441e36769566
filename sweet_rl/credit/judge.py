"""An LLM as a judge: asked which of two candidates of a turn is better, in a knockout over all of them."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Sequence

from sweet_rl.credit.candidate_texts import check_candidates
from sweet_rl.credit.critics import CriticSettings
from sweet_rl.models.base import ChatModel, Message, Sampling
from sweet_rl.models.load import load_model
from sweet_rl.models.settings import ModelSettings
from sweet_rl.models.thinking import without_thinking
from sweet_rl.prompts import fill, load_prompt
from sweet_rl.records import TurnCandidates, seed_for

NEEDED, KNOWN = ("dialogue", "first", "second"), ("ground_truth",)
SOLUTION = "\nThe right result, which the engineer cannot see:\n\n<solution>\n{ground_truth}\n</solution>\n"
MARKUP = re.compile(r"<\|[^<>|]*\|>")
VERDICT = re.compile(r"better\W{0,6}([12])\b", re.IGNORECASE)
VERDICT_TOKENS = 512


def judge_prompt(path: str) -> str:
    """The judge's template. Raises UserError if it cannot be read or does not show both messages."""
    return load_prompt(path, NEEDED, KNOWN)


class JudgeCritic:
    """Scores a candidate by the number of knockout rounds that it survives (a `critics.Critic`).

    The model is asked twice about each match, the second time with the two messages exchanged, so that a preference for
    the first place cancels out. If the verdicts contradict each other, or one cannot be read, the winner is drawn at
    random. Equal texts enter once. The same seed gives the same brackets and draws.

    Args:
        model: the judge.
        prompt_template: Template of `judge_prompt`.
        hint: whether the judge sees the reference solution.
        seed: Random seed of brackets and draws.
        calls_at_once: turns in progress.

    Attributes:
        tally: counts of matches: decided, contradicted, unreadable.
    """

    turns_per_call = 1
    eos_text = None

    def __init__(
        self, model: ChatModel, prompt_template: str, hint: bool = True, seed: int = 0, calls_at_once: int = 64
    ):
        self.model, self.calls_at_once, self.tally = model, calls_at_once, Counter()
        self._template, self._hint, self._seed = prompt_template, hint, seed
        self._checked: asyncio.Task | None = None

    @classmethod
    def load(cls, settings: CriticSettings) -> JudgeCritic:
        """Load the judge's model, or connect to its server. Raises UserError if the template cannot be used."""
        prompt = judge_prompt(settings.judge_prompt_path)
        server = ModelSettings(
            settings.engine, settings.hostname, tokenizer=None, api_key_variable=settings.api_key_variable
        )
        model = load_model(settings.model_id, server)
        return cls(model, prompt, settings.hint, settings.seed, settings.concurrency)

    async def scores(self, records: Sequence[TurnCandidates]) -> list[list[float]]:
        if self._checked is None:
            self._checked = asyncio.ensure_future(self.model.check())
        await self._checked
        return list(await asyncio.gather(*map(self._knockout, records)))

    async def close(self) -> None:
        await self.model.close()

    async def _knockout(self, record: TurnCandidates) -> list[float]:
        check_candidates(record, self._hint)
        texts = sorted(set(record.additional_outputs))
        draw = random.Random(seed_for(self._seed, record.id, "knockout"))
        draw.shuffle(texts)
        survived, players = dict.fromkeys(texts, 0), texts
        while len(players) > 1:
            matches = list(zip(players[::2], players[1::2], strict=False))
            lots = [draw.random() < 0.5 for _ in matches]
            winners = await asyncio.gather(
                *(self._match(record, *match, lot) for match, lot in zip(matches, lots, strict=True))
            )
            # A text without an opponent advances, and plays first in the next round: no second bye in a row.
            players = [*players[2 * len(matches) :], *winners]
            for player in players:
                survived[player] += 1
        return [float(survived[text]) for text in record.additional_outputs]

    async def _match(self, record: TurnCandidates, one: str, other: str, lot: bool) -> str:
        verdicts = await asyncio.gather(self._verdict(record, one, other), self._verdict(record, other, one))
        if None in verdicts:
            self.tally["unreadable"] += 1
        elif verdicts[0] == verdicts[1]:
            self.tally["contradicted"] += 1  # the same place both times
        else:
            self.tally["decided"] += 1
            return one if verdicts[0] == 1 else other
        return one if lot else other

    async def _verdict(self, record: TurnCandidates, first: str, second: str) -> int | None:
        """The place, 1 or 2, of the better message; None if the reply does not name it."""
        solution = fill(SOLUTION, ground_truth=record.task.ground_truth) if self._hint else ""
        text = fill(
            self._template,
            dialogue=conversation(record),
            first=without_thinking(first),
            second=without_thinking(second),
            ground_truth=solution,
        )
        sampling = Sampling(temperature=0.0, max_tokens=VERDICT_TOKENS, seed=seed_for(self._seed, record.id))
        (completion,) = await self.model.complete([{"role": "user", "content": text}], sampling)
        return read_verdict(completion.text)


def read_verdict(reply: str) -> int | None:
    """1 or 2 by the last `Better: N` of a judge's reply, None without one."""
    found = VERDICT.findall(reply)
    return int(found[-1]) if found else None


def conversation(record: TurnCandidates) -> str:
    """The dialogue up to the turn as text: its messages, or, for files without them, the prompt without markup."""
    messages: list[Message] | None = record.dialogue
    if messages is not None:
        names = {"assistant": "Engineer", "user": "Colleague", "system": "Instructions"}
        return "\n\n".join(f"{names[message['role']]}: {message['content'].strip()}" for message in messages)
    text = record.input if isinstance(record.input, str) else "".join(part["text"] for part in record.input)
    return MARKUP.sub("\n", text).strip()
