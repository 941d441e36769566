"""Acting with a critic: of several candidates for a turn, the best-scored one is played (Figure 3a of the paper)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sweet_rl.dialogues.simulate import SelectorSettings
from sweet_rl.method.advantage import order_by_score
from sweet_rl.method.candidates import with_candidates
from sweet_rl.method.critics import CheckedCritic, ChosenCritic
from sweet_rl.models.base import Completion, Message, ModelError, Part
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, TurnCandidates


def best_of_n(critic: ChosenCritic) -> SelectorSettings:
    """How dialogues choose the best of several candidates by a critic. Raises UserError if a model is not there."""
    critic.check_models()
    return SelectorSettings(critic.to_settings(), critic.inputs(), lambda: BestCandidate(critic.load()))


class BestCandidate:
    """Chooses the candidate with the highest score, the first of equal ones (a `dialogues.play.CandidateSelector`).

    Turns of different dialogues that wait at the same time are scored in one call, at most `critic.turns_per_call`.

    Args:
        critic: The critic. Its `chat` lays out the prompt if the agent's own prompt is not known.
    """

    def __init__(self, critic: CheckedCritic) -> None:
        self._critic = critic
        self._waiting: list[tuple[TurnCandidates, asyncio.Future[int]]] = []
        self._workers: set[asyncio.Task] = set()

    async def __call__(
        self,
        task: Task,
        messages: list[Message],
        prompt: list[Part] | None,
        completions: Sequence[Completion],
        tokenizer: str | None = None,
    ) -> int:
        """The index of the candidate to play. Arguments as in `dialogues.play.CandidateSelector`.

        Raises:
            ModelError: The critic failed; of kind "engine" for any error that is not its server's.
            UserError: The critic cannot score the turn.
        """
        whole = self._turn(task, messages, prompt, completions, tokenizer)
        places = whole.with_tokens()
        if not places:  # all were cut before their first token
            return 0
        chosen: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((whole.without_empty(), chosen))
        if len(self._workers) < self._critic.calls_at_once:
            self._workers.add(asyncio.ensure_future(self._work()))
        return places[await chosen]

    async def close(self) -> None:
        await self._critic.close()

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

    async def _work(self) -> None:
        while self._waiting:
            size = self._critic.turns_per_call
            batch, self._waiting = self._waiting[:size], self._waiting[size:]
            await self._score(batch)
        # Not in a callback of the task: a turn could begin to wait before that, and no worker would take it.
        self._workers.discard(asyncio.current_task())

    async def _score(self, batch: list[tuple[TurnCandidates, asyncio.Future[int]]]) -> None:
        results: Sequence[int | Exception]
        try:
            scores = await self._critic.scores([turn for turn, _ in batch])
            results = [order_by_score(own)[0] for own in scores]
        except (ModelError, UserError) as error:
            results = [error] * len(batch)
        except Exception as error:  # every waiting turn gets the error, whatever a model raises
            results = [ModelError("engine", f"{type(error).__name__}: {error}")] * len(batch)
        for (_, chosen), result in zip(batch, results, strict=True):
            if chosen.done():
                continue
            if isinstance(result, Exception):
                chosen.set_exception(result)
            else:
                chosen.set_result(result)
