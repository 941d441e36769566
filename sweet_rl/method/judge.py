"""The LLM judge of Figure 3a: it is asked which of two candidates is better, in a knockout over those of a turn."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from sweet_rl.method.candidate_texts import check_candidates, dialogue_of, reference_solution
from sweet_rl.models.base import ChatModel, Message, Sampling
from sweet_rl.models.load import load_model
from sweet_rl.models.prompts import fill, load_prompt
from sweet_rl.models.settings import ModelSettings
from sweet_rl.models.texts.chat import spoken_candidates
from sweet_rl.models.weights import model_input
from sweet_rl.runs.cli import UNRECORDED, to_settings
from sweet_rl.runs.records import TurnCandidates, hash_rows, seed_for

SOLUTION = "\nThe right result, which the engineer cannot see:\n\n<solution>\n{ground_truth}\n</solution>\n"
VERDICT = re.compile(r"better\W{0,6}([12])\b", re.IGNORECASE)
VERDICT_TOKENS = 512


def judge_prompt(path: str) -> str:
    """The judge's template. Raises UserError if it cannot be read or does not show both messages."""
    return load_prompt(path, ("dialogue", "first", "second"), ("ground_truth",))


@dataclass(frozen=True)
class JudgeSettings:
    """The judge, its server and its prompt.

    Attributes:
        model_id: Judge: directory, hub name, or a server's name for it.
        no_prompt: Do not show the reference solution to the judge.
        hostname: Server of the judge. Without one it runs in this process.
        engine: Engine that runs the judge: auto, transformers, vllm, or openai (the hosted API).
        judge_prompt_path: Template with {dialogue}, {first}, {second} and optionally {ground_truth}.
        api_key_variable: Environment variable that holds the key of the judge's server. Default: OPENAI_API_KEY, which
            is sent to OpenAI's own API only.
        concurrency: Number of turns that the judge has in progress.
        seed: Random seed of the brackets and of the matches that the judge calls equal.
    """

    model_id: str
    no_prompt: bool = False
    hostname: Annotated[str | None, UNRECORDED] = None
    engine: Annotated[Literal["auto", "transformers", "vllm", "openai"], UNRECORDED] = "auto"
    judge_prompt_path: str = "judge.txt"
    api_key_variable: Annotated[str | None, UNRECORDED] = None
    concurrency: Annotated[int, UNRECORDED] = 64
    seed: int = 0

    def __post_init__(self) -> None:
        self.server()

    def server(self) -> ModelSettings:
        """The settings of its server. Raises UserError if the hostname or the key cannot be used."""
        return ModelSettings(self.engine, self.hostname, tokenizer=None, api_key_variable=self.api_key_variable)

    def inputs(self) -> list[str]:
        """The judge's folder, if it is on this machine."""
        return [path for path in [model_input(self.model_id)] if path]

    def to_settings(self) -> dict[str, Any]:
        """The settings that the scores depend on, with a hash of the prompt's text in place of its path."""
        text = judge_prompt(self.judge_prompt_path)
        return to_settings(self) | {"judge_prompt_path": None, "judge_prompt": hash_rows([text])[:16]}


class JudgeCritic:
    """Scores a candidate by the number of knockout rounds that it survives (a `critics.Critic`).

    The model is asked twice about each match, the second time with the two messages exchanged, so that a preference for
    the first place cancels out. If the verdicts contradict each other, or one cannot be read, the winner is drawn at
    random. Equal texts enter once. The same seed gives the same brackets and draws.
    """

    turns_per_call = 1
    eos_text = None

    def __init__(
        self, model: ChatModel, prompt_template: str, hint: bool = True, seed: int = 0, calls_at_once: int = 64
    ):
        self.model, self.calls_at_once = model, calls_at_once
        self._template, self._hint, self._seed = prompt_template, hint, seed
        self._checked: asyncio.Task | None = None

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
        spoken = dict(zip(record.additional_outputs, spoken_candidates(record), strict=True))
        while len(players) > 1:
            matches = list(zip(players[::2], players[1::2], strict=False))
            first_wins_tie = [draw.random() < 0.5 for _ in matches]
            played = zip(matches, first_wins_tie, strict=True)
            winners = await asyncio.gather(*(self._match(record, spoken, *match, tie) for match, tie in played))
            # A text without an opponent advances. It is first in the next round, so that it has an opponent there.
            players = [*players[2 * len(matches) :], *winners]
            for player in players:
                survived[player] += 1
        return [float(survived[text]) for text in record.additional_outputs]

    async def _match(
        self, record: TurnCandidates, spoken: Mapping[str, str], one: str, other: str, first_wins_tie: bool
    ) -> str:
        first, second = spoken[one], spoken[other]
        verdicts = await asyncio.gather(self._verdict(record, first, second), self._verdict(record, second, first))
        if None in verdicts or verdicts[0] == verdicts[1]:  # unreadable, or the same place both times
            return one if first_wins_tie else other
        return one if verdicts[0] == 1 else other

    async def _verdict(self, record: TurnCandidates, first: str, second: str) -> int | None:
        """The place, 1 or 2, of the better message; None if the reply does not name it."""
        solution = fill(SOLUTION, ground_truth=reference_solution(record)) if self._hint else ""
        text = fill(self._template, dialogue=conversation(record), first=first, second=second, ground_truth=solution)
        sampling = Sampling(temperature=0.0, max_tokens=VERDICT_TOKENS, seed=seed_for(self._seed, record.id))
        messages: list[Message] = [{"role": "user", "content": text}]
        (completion,) = await self.model.complete(messages, sampling)
        return read_verdict(completion.text)


def load_judge(settings: JudgeSettings) -> JudgeCritic:
    """Load the judge's model, or connect to its server. Raises UserError if the template cannot be used."""
    prompt = judge_prompt(settings.judge_prompt_path)
    model = load_model(settings.model_id, settings.server())
    return JudgeCritic(model, prompt, not settings.no_prompt, settings.seed, settings.concurrency)


def read_verdict(reply: str) -> int | None:
    """1 or 2 by the last `Better: N` of a judge's reply, None without one."""
    found = VERDICT.findall(reply)
    return int(found[-1]) if found else None


def conversation(record: TurnCandidates) -> str:
    """The dialogue up to the turn as text. Raises UserError if the record does not have its messages."""
    names = {"assistant": "Engineer", "user": "Colleague", "system": "Instructions"}
    return "\n\n".join(f"{names[message['role']]}: {message['content'].strip()}" for message in dialogue_of(record))
