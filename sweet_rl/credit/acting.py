"""Acting with a critic: of several candidates for a turn, the one it likes best is played (Figure 3a of the paper)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sweet_rl.chat import ChatFormat
from sweet_rl.credit.advantage import order_by_score
from sweet_rl.credit.critics import Critic
from sweet_rl.errors import UserError
from sweet_rl.models.base import Completion, Message, ModelError, Part
from sweet_rl.records import Task, TurnCandidates


class BestCandidate:
    """Chooses the candidate that `critic` scores highest, the first of equal ones; see `rollout.Choose`.

    Turns of different dialogues that wait at the same time are scored together, as many as the critic likes.

    Args:
        chat: lays out the prompt where the agent's own layout is not known.
    """

    def __init__(self, critic: Critic, chat: ChatFormat | None = None) -> None:
        self._critic, self._chat = critic, chat
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
        """The index of the one to play. Raises ModelError, of kind engine where the critic itself breaks."""
        chosen: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._turn(task, messages, prompt, completions, tokenizer), chosen))
        if len(self._workers) < self._critic.calls_at_once:
            worker = asyncio.ensure_future(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
        return await chosen

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
            if self._chat is None:
                raise UserError("the agent's prompt is not known to the critic: give --agent_tokenizer.")
            prompt = self._chat.prompt(messages)
        number = sum(message["role"] == "assistant" for message in messages)
        return TurnCandidates(
            id=f"{task.id}, turn {number}",
            task=task,
            turn=number,
            input=prompt,
            older_output=completions[0].text,
            additional_outputs=[one.text for one in completions],
            additional_reference_logprobs=_each(completions, "logprobs"),
            additional_token_ids=_each(completions, "token_ids"),
            additional_finish_reasons=[one.finish_reason for one in completions],
            tokenizer=tokenizer,
        )

    async def _work(self) -> None:
        while self._waiting:
            size = self._critic.turns_per_call
            batch, self._waiting = self._waiting[:size], self._waiting[size:]
            try:
                scores = await self._critic.scores([turn for turn, _ in batch])
                results = [order_by_score(own)[0] for own in scores]
            except (ModelError, UserError) as error:
                results = [error] * len(batch)
            except Exception as error:  # whatever a model raises belongs to those who wait for it
                results = [ModelError("engine", f"{type(error).__name__}: {error}")] * len(batch)
            for (_, chosen), result in zip(batch, results, strict=True):
                if chosen.done():
                    continue
                if isinstance(result, Exception):
                    chosen.set_exception(result)
                else:
                    chosen.set_result(result)


def _each(completions: Sequence[Completion], name: str) -> list | None:
    values = [getattr(completion, name) for completion in completions]
    return None if any(value is None for value in values) else values
