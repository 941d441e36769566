"""Play many dialogues concurrently, each at its own pace. A dialogue that fails is a record and stops no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from sweet_rl.chat import parts_text
from sweet_rl.domains import Environment, Human, HumanReply
from sweet_rl.errors import UserError
from sweet_rl.models.base import ChatModel, Completion, Message, ModelError, Part, Sampling
from sweet_rl.records import Task, Trajectory, seed_for
from sweet_rl.records.schema import Failure
from sweet_rl.redaction import redacted
from sweet_rl.runs.step import as_they_finish
from sweet_rl.user_file import line_of


class CandidateSelector(Protocol):
    """Chooses which of several candidates for a turn is played."""

    async def __call__(
        self,
        task: Task,
        messages: list[Message],
        prompt: list[Part] | None,
        completions: Sequence[Completion],
        tokenizer: str | None,
    ) -> int:
        """The index of the candidate to play.

        Args:
            task: the task with its reference solution.
            messages: the dialogue before the turn.
            prompt: the same messages as parts; None if the agent's chat format is not known.
            completions: the candidates.
            tokenizer: fingerprint of the tokenizer that the candidates' token ids belong to; None if not known.
        """
        ...


@dataclass(frozen=True)
class DialogueSetup:
    """The two sides of a dialogue and its rules.

    Attributes:
        agent: the policy.
        human: replies to the agent.
        begin: makes the environment of a task.
        sampling: Sampling of the agent's messages, with the seed of the run and the number `n` of candidates per turn.
        choose: chooses the candidate that is played (the paper, figure 3a); None plays the only one.
        label_turn: see `Domain.label_turn`.
        human_identity: {name, hash} of the human, which the trajectories carry.
        on_message: callback(side, completion_tokens), called after each message; side is "agent" or "human".
        record_logprobs: keep the log-probs of sampling in the agent's messages, rounded to six decimals.
        on_cancel: callback(trajectory), called with the dialogue as it stands if its task is cancelled.
        source: The user's file with the domain, whose lines failures name.
    """

    agent: ChatModel
    human: Human
    begin: Callable[[Task], Environment]
    sampling: Sampling
    choose: CandidateSelector | None = None
    label_turn: Callable[[Task, list[Message], str], str | None] | None = None
    human_identity: dict[str, str] | None = None
    on_message: Callable[[str, int], None] | None = None
    record_logprobs: bool = False
    on_cancel: Callable[[Trajectory], None] | None = None
    source: Path | None = None

    def __post_init__(self) -> None:
        if self.sampling.n > 1 and self.choose is None:
            raise ValueError("several candidates per turn need a `choose`")


def trajectory_id(task: Task, sample: int) -> str:
    return f"{task.id}-{sample}"


async def play(task: Task, sample: int, dialogue_setup: DialogueSetup) -> Trajectory:
    """Play one dialogue from its task to its end.

    All randomness comes from seed_for(run seed, trajectory id, turn): a dialogue does not depend on the dialogues that
    run beside it. If one side fails, the trajectory has `ending` "failed" and `failure` {kind, message, side}.

    Args:
        task: the task.
        sample: number of this dialogue among those of its task; another number gives another dialogue.
        dialogue_setup: the two sides and the rules.

    Raises:
        UserError: no dialogue can work: the chat template refuses the messages, a server refuses the key, or it does
            not report the log-probs that are to be recorded.
    """
    key = trajectory_id(task, sample)
    seed = seed_for(dialogue_setup.sampling.seed, key)
    environment = dialogue_setup.begin(task)
    usage = {side: {"prompt_tokens": 0, "completion_tokens": 0} for side in ("agent", "human")}
    failure: Failure | None = None
    leaks, side = 0, "agent"

    def count(side: str, replies: Sequence[Completion | HumanReply]) -> None:
        written = sum(reply.completion_tokens for reply in replies)
        usage[side]["prompt_tokens"] += replies[0].prompt_tokens  # candidates share one prompt
        usage[side]["completion_tokens"] += written
        if dialogue_setup.on_message is not None:
            dialogue_setup.on_message(side, written)

    try:
        while not environment.over:
            side = "agent"
            turn_seed = seed_for(seed, environment.turns)
            messages, parts, completions = await _candidates(dialogue_setup, environment, turn_seed)
            count("agent", completions)
            completion = completions[0]
            if dialogue_setup.choose is not None:
                side = "critic"
                chat = dialogue_setup.agent.chat
                tokenizer = None if parts is None or chat is None else chat.fingerprint
                index = await dialogue_setup.choose(task, messages, parts, completions, tokenizer)
                completion = completions[index]
            side = "domain"
            environment.step(completion, None if parts is None else parts_text(parts))
            if dialogue_setup.record_logprobs:
                environment.dialogue[-1]["logprobs"] = _sampling_logprobs(completion)
            if dialogue_setup.label_turn is not None:
                word = dialogue_setup.label_turn(task, messages, environment.dialogue[-1]["content"])
                if word is not None:
                    environment.dialogue[-1]["oracle"] = word
            if not environment.over:
                side = "human"
                reply = await dialogue_setup.human.reply(task, environment.observe(), seed_for(turn_seed, "human"))
                if not isinstance(reply, HumanReply):
                    name = type(dialogue_setup.human).__name__
                    raise TypeError(f"{name}.reply returned a {type(reply).__name__}; it must return a HumanReply")
                count("human", [reply])
                leaks += reply.leaks
                side = "domain"
                environment.add_human_reply(reply.text)
    except ModelError as error:
        if error.fatal:
            raise UserError(f"{side}: {error.fatal}: {error}") from error
        failure = {"kind": error.kind, "message": str(error)[:1000], "side": side}
    except UserError:
        raise
    except asyncio.CancelledError:
        if dialogue_setup.on_cancel is not None:
            dialogue_setup.on_cancel(_record(task, key, environment, dialogue_setup, None, usage, leaks))
        raise
    except Exception as error:  # an unexpected error is recorded in this dialogue and does not end the batch
        source = dialogue_setup.source
        line = None if source is None else line_of(error, source)
        place = f" ({source.name}:{line})" if source and line else ""
        failure = {"kind": type(error).__name__, "message": redacted(str(error))[:1000] + place, "side": side}
    return _record(task, key, environment, dialogue_setup, failure, usage, leaks)


def _sampling_logprobs(completion: Completion) -> list[float]:
    if completion.token_ids is None or completion.logprobs is None:
        raise UserError(
            "--record_logprobs: the agent's server does not report the ids and log-probs of the tokens that it "
            "samples. Use vLLM or an agent in this process, or leave the flag out and train with --old_logprobs "
            "recomputed."
        )
    return [round(value, 6) for value in completion.logprobs]


async def _candidates(
    dialogue_setup: DialogueSetup, environment: Environment, seed: int
) -> tuple[list[Message], list[Part] | None, list[Completion]]:
    """The messages that the agent sees, the same as parts if its chat format is known, and its candidates."""
    agent, sampling, messages = dialogue_setup.agent, replace(dialogue_setup.sampling, seed=seed), environment.observe()
    if agent.chat is None:
        return messages, None, await agent.complete(messages, sampling)
    parts = agent.chat.prompt(messages)
    return messages, parts, await agent.complete_parts(parts, sampling, agent.chat.fingerprint)


def _record(
    task: Task,
    key: str,
    environment: Environment,
    dialogue_setup: DialogueSetup,
    failure: Failure | None,
    usage: dict,
    leaks: int,
) -> Trajectory:
    history, parts, agent = environment.dialogue, None, dialogue_setup.agent
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
        human=dialogue_setup.human_identity,
    )


async def play_all(
    jobs: Iterable[tuple[Task, int]], dialogue_setup: DialogueSetup, concurrency: int
) -> AsyncIterator[Trajectory]:
    """Play the dialogues of (task, sample) jobs, at most `concurrency` at the same time, in the order they end."""
    async for trajectory in as_they_finish(jobs, lambda job: play(*job, dialogue_setup), concurrency):
        yield trajectory
