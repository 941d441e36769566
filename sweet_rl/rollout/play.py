"""Many dialogues at once, each at its own pace; a failure is a record and stops nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from sweet_rl.chat import parts_text
from sweet_rl.environments import CodeCollaboration
from sweet_rl.errors import UserError
from sweet_rl.humans import Human, HumanReply
from sweet_rl.models.base import ChatModel, Completion, Message, ModelError, Part, Sampling
from sweet_rl.records import Task, Trajectory, seed_for

Job = TypeVar("Job")
Result = TypeVar("Result")


class Choose(Protocol):
    """Which of several candidates for a turn is played: the index of one. Sees what the critic may see: the task with
    its reference solution, the messages before the turn and, where known, their layout in parts and the fingerprint
    of the tokenizer that the token ids belong to."""

    async def __call__(
        self,
        task: Task,
        messages: list[Message],
        prompt: list[Part] | None,
        completions: Sequence[Completion],
        tokenizer: str | None,
    ) -> int: ...


@dataclass(frozen=True)
class Collaboration:
    """Who talks, by which rules.

    Attributes:
        begin: makes a task's environment.
        sampling: of the agent's messages; `seed` is the run's seed, `n` the number of candidates for each turn.
        choose: says which candidate is played (Figure 3a of the paper); None plays the only one.
        heard: told of each message: the side ("agent", "human") and its completion tokens.
    """

    agent: ChatModel
    human: Human
    begin: Callable[[Task], CodeCollaboration]
    sampling: Sampling
    choose: Choose | None = None
    heard: Callable[[str, int], None] | None = None

    def __post_init__(self) -> None:
        if self.sampling.n > 1 and self.choose is None:
            raise ValueError("several candidates for a turn need someone who chooses one of them")


def trajectory_id(task: Task, sample: int) -> str:
    return f"{task.id}-{sample}"


async def play(task: Task, sample: int, collaboration: Collaboration) -> Trajectory:
    """One dialogue from its task to its end.

    Every random choice comes from seed_for(run seed, trajectory id, turn), so that a dialogue is the same
    whatever runs beside it. Failures of either side end it with `ending` "failed" and `failure` {kind,
    message, side}. Raises UserError where no dialogue could work (a template that refuses the messages, a
    refused key).
    """
    key = trajectory_id(task, sample)
    seed = seed_for(collaboration.sampling.seed, key)
    environment = collaboration.begin(task)
    usage = _Usage(collaboration.heard)
    leaks, failure, side = 0, None, "agent"
    try:
        while not environment.over:
            side = "agent"
            turn_seed = seed_for(seed, environment.turns)
            messages, parts, completions = await _speak(collaboration, environment, turn_seed)
            usage.add("agent", completions)
            completion = completions[0]
            if collaboration.choose is not None:
                side = "critic"
                tokenizer = None if parts is None else collaboration.agent.chat.fingerprint
                place = await collaboration.choose(task, messages, parts, completions, tokenizer)
                completion = completions[place]
                side = "agent"
            environment.step(completion, None if parts is None else parts_text(parts))
            if not environment.over:
                side = "human"
                reply = await collaboration.human.reply(task, environment.observe(), seed_for(turn_seed, "human"))
                usage.add("human", [reply])
                leaks += reply.leaks
                environment.hear(reply.text)
    except ModelError as error:
        if error.kind == "auth":
            raise UserError(f"the {side}'s server refuses the key or the model: {error}") from error
        failure = {"kind": error.kind, "message": str(error)[:1000], "side": side}
    except UserError:
        raise
    except Exception as error:  # one dialogue's surprise is its own record, never the end of the batch
        failure = {"kind": type(error).__name__, "message": str(error)[:1000], "side": side}
    return _record(task, key, environment, collaboration.agent, failure, usage.tokens, leaks)


async def _speak(
    collaboration: Collaboration, environment: CodeCollaboration, seed: int
) -> tuple[list[Message], list[Part] | None, list[Completion]]:
    """What the agent sees, its layout where the agent's chat format is known, and what the agent may say."""
    agent, sampling, messages = collaboration.agent, replace(collaboration.sampling, seed=seed), environment.observe()
    if agent.chat is None:
        return messages, None, await agent.complete(messages, sampling)
    parts = agent.chat.prompt(messages)
    return messages, parts, await agent.complete_parts(parts, sampling, agent.chat.fingerprint)


class _Usage:
    """Tokens of a dialogue by side; the prompt of several candidates counts once."""

    def __init__(self, heard: Callable[[str, int], None] | None) -> None:
        self.tokens = {side: {"prompt_tokens": 0, "completion_tokens": 0} for side in ("agent", "human")}
        self._heard = heard

    def add(self, side: str, said: Sequence[Completion | HumanReply]) -> None:
        made = sum(one.completion_tokens for one in said)
        self.tokens[side]["prompt_tokens"] += said[0].prompt_tokens
        self.tokens[side]["completion_tokens"] += made
        if self._heard is not None:
            self._heard(side, made)


def _record(
    task: Task,
    key: str,
    environment: CodeCollaboration,
    agent: ChatModel,
    failure: dict | None,
    usage: dict,
    leaks: int,
) -> Trajectory:
    history, parts = environment.dialogue, None
    if agent.chat is not None and environment.turns:
        last = max(index for index, message in enumerate(history) if message["role"] == "assistant")
        parts = agent.chat.dialogue(history[: last + 1])
    return Trajectory(
        task=task,
        dialogue_history=history,
        answer=environment.answer,
        reward=None,
        id=key,
        ending="failed" if failure else environment.ending,
        failure=failure,
        parts=parts,
        tokenizer=None if agent.chat is None else agent.chat.fingerprint,
        usage=usage,
        leaks=leaks,
    )


async def play_all(
    jobs: Iterable[tuple[Task, int]], collaboration: Collaboration, concurrency: int
) -> AsyncIterator[Trajectory]:
    """The dialogues of (task, sample) jobs in the order in which they end, `concurrency` of them under
    way."""
    async for trajectory in as_they_finish(jobs, lambda job: play(*job, collaboration), concurrency):
        yield trajectory


async def as_they_finish(
    jobs: Iterable[Job], work: Callable[[Job], Awaitable[Result]], concurrency: int
) -> AsyncIterator[Result]:
    """Results of work(job), in the order in which they come, at most `concurrency` jobs at once; jobs are
    taken from the iterable as places get free. An exception of a job goes up and cancels the others."""
    waiting, running, finished = iter(jobs), set(), asyncio.Queue()

    def start() -> bool:
        for job in waiting:
            task = asyncio.ensure_future(work(job))
            running.add(task)
            task.add_done_callback(finished.put_nowait)
            return True
        return False

    try:
        while len(running) < concurrency and start():
            pass
        while running:
            task = await finished.get()
            running.discard(task)
            result = task.result()
            start()
            yield result
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
