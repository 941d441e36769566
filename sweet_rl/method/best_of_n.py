"""Acting with a critic: of several candidates for a turn, the best-scored one is played (Figure 3a of the paper)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice

from sweet_rl.dialogues.simulate import SelectorSettings
from sweet_rl.method.advantage import order_by_score
from sweet_rl.method.candidates import with_candidates
from sweet_rl.method.critics import CheckedCritic, ChosenCritic
from sweet_rl.models.base import Completion, Message
from sweet_rl.runs.records import Part, Task, TurnCandidates


def best_of_n(critic: ChosenCritic, temperature: float) -> SelectorSettings:
    """How dialogues choose the best of several candidates, sampled at a temperature, by a critic."""
    critic.check_temperature(temperature, "--temperature")
    return SelectorSettings(critic.to_settings(), critic.inputs(), lambda: BestCandidate(critic.load()))


class BestCandidate:
    """Chooses the candidate with the highest score, the first of equal ones (a `dialogues.play.CandidateSelector`).

    Turns of different dialogues that wait at the same time are scored in one call, at most `critic.turns_per_call`. The
    critic's `chat` lays out the prompt if the agent's own prompt is not known.
    """

    def __init__(self, critic: CheckedCritic) -> None:
        self._critic = critic
        self._waiting: dict[asyncio.Future[list[float]], TurnCandidates] = {}
        self._calls = asyncio.Semaphore(critic.calls_at_once)

    async def __call__(
        self,
        task: Task,
        messages: list[Message],
        prompt: list[Part] | None,
        completions: Sequence[Completion],
        tokenizer: str | None = None,
    ) -> int:
        """The index of the candidate to play. Arguments as in `dialogues.play.CandidateSelector`."""
        turn = self._turn(task, messages, prompt, completions, tokenizer)
        places = turn.with_tokens()
        if not places:  # all were cut before their first token
            return 0
        scores: asyncio.Future[list[float]] = asyncio.get_running_loop().create_future()
        self._waiting[scores] = turn.without_empty()
        async with self._calls:
            while scores in self._waiting:  # another call may have taken it along
                await self._score()
        return places[order_by_score(await scores)[0]]

    async def close(self) -> None:
        await self._critic.close()

    async def _score(self) -> None:
        """Score the turns that have waited longest."""
        batch = dict(islice(self._waiting.items(), self._critic.turns_per_call))
        for waiting in batch:
            del self._waiting[waiting]
        try:
            found = await self._critic.scores(list(batch.values()))
        except Exception as error:  # reaches every dialogue whose turn was in the batch
            for waiting in batch:
                waiting.set_exception(error)
        else:
            for waiting, scores in zip(batch, found, strict=True):
                waiting.set_result(scores)

    def _turn(
        self,
        task: Task,
        messages: list[Message],
        prompt: list[Part] | None,
        completions: Sequence[Completion],
        tokenizer: str | None,
    ) -> TurnCandidates:
        if prompt is None:
            prompt = [] if self._critic.chat is None else self._critic.chat.prompt(messages)
        number = sum(message["role"] == "assistant" for message in messages)
        turn = TurnCandidates(
            id=f"{task.id}, turn {number}",
            task=task,
            turn=number,
            input=prompt,
            older_output=completions[0].text,
            additional_outputs=[],
            tokenizer=tokenizer,
            dialogue=messages,
        )
        return with_candidates(turn, completions)
