"""Play many dialogues concurrently, each at its own pace. A dialogue that fails is a record and stops no other."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import inspect
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from sweet_rl.dialogues.protocols import Environment, Human, HumanReply, sum_or_none
from sweet_rl.models.base import ChatModel, Completion, Message, ModelError, Part, Sampling
from sweet_rl.models.texts.chat import parts_text
from sweet_rl.runs.errors import RecordError, UserError, masked
from sweet_rl.runs.records import Task, Trajectory, parse_row, seed_for
from sweet_rl.runs.records.schema import Failure
from sweet_rl.runs.step import as_they_finish
from sweet_rl.runs.user_file import USER_ERRORS, is_cancelled, place_of, shown, text_of

OUTGROWN = "context"  # finish_reason of the empty message with which a dialogue that is too long for its agent ends


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
            task: The task with its reference solution.
            messages: The dialogue before the turn.
            prompt: The same messages as parts; None if the agent's chat format is not known.
            completions: The candidates.
            tokenizer: Fingerprint of the tokenizer that the candidates' token ids belong to; None if not known.
        """
        ...


@dataclass(frozen=True)
class DialogueSetup:
    """The two sides of a dialogue and its rules.

    Attributes:
        agent: The policy.
        human: The human who replies to the agent.
        begin: Function that makes the environment of a task.
        sampling: Sampling of the agent's messages, with the seed of the run and the number `n` of candidates per turn.
        choose: Selector of the candidate that is played (the paper, figure 3a); None plays the only one.
        label_turn: See `Domain.label_turn`.
        human_identity: {name, hash} of the human, which the trajectories carry.
        on_message: Callback(side, completion_tokens), called after each message; side is "agent" or "human".
        on_cancel: Callback(trajectory), called with the dialogue as it stands if its task is cancelled.
        source: The user's file with the domain, whose lines failures name.
        protocol: Name of the protocol, which the trajectories carry (`Domain.protocol`).
    """

    agent: ChatModel
    human: Human
    begin: Callable[[Task], Environment]
    sampling: Sampling
    choose: CandidateSelector | None = None
    label_turn: Callable[[Task, list[Message], str], str | None] | None = None
    human_identity: dict[str, str] | None = None
    on_message: Callable[[str, int], None] | None = None
    on_cancel: Callable[[Trajectory], None] | None = None
    source: Path | None = None
    protocol: str | None = None

    def __post_init__(self) -> None:
        if self.sampling.n > 1 and self.choose is None:
            raise ValueError("several candidates per turn need a `choose`")


def trajectory_id(task: Task, sample: int) -> str:
    return f"{task.id}-{sample}"


class SideFailed(Exception):
    """One side of a dialogue failed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure["message"])
        self.failure = failure


@contextlib.contextmanager
def blamed(side: str, source: Path | None = None) -> Iterator[None]:
    """Blame a side of the dialogue for an error in the block.

    Args:
        side: Name of the side: agent, human, critic or domain.
        source: The user's file with the domain; if one of its lines raised the error, the failure names it.

    Raises:
        SideFailed: In place of the error, which is recorded in this dialogue and does not end the batch.
        UserError: No dialogue can work.
    """
    try:
        yield
    except (SideFailed, UserError):
        raise
    except ModelError as error:
        if error.fatal:
            raise UserError(f"{side}: {error.fatal}: {error}") from error
        raise SideFailed({"kind": error.kind, "message": str(error)[:1000], "side": side}) from error
    except USER_ERRORS as error:
        if is_cancelled(error):
            raise
        place = None if source is None else place_of(error, source)
        message = masked(text_of(error))[:1000] + (f" ({place[0].name}:{place[1]})" if place else "")
        raise SideFailed({"kind": type(error).__name__, "message": message, "side": side}) from error


async def play(task: Task, sample: int, dialogue_setup: DialogueSetup) -> Trajectory:
    """Play one dialogue from its task to its end.

    All randomness comes from seed_for(run seed, trajectory id, turn): a dialogue does not depend on the dialogues that
    run beside it. If one side fails, the trajectory has `ending` "failed" and `failure` {kind, message, side}.

    Args:
        task: The task.
        sample: Number of this dialogue among those of its task; another number gives another dialogue.
        dialogue_setup: The two sides and the rules.

    Raises:
        UserError: No dialogue can work: the chat template refuses the messages, or a server refuses the key.
    """
    dialogue = _Dialogue(task, trajectory_id(task, sample), dialogue_setup)
    try:
        await dialogue.play()
    except SideFailed as failed:
        with contextlib.suppress(TypeError):  # of a user's environment, which may be why the dialogue failed
            dialogue.check_environment()
        return dialogue.record(failed.failure)
    except asyncio.CancelledError:
        if dialogue_setup.on_cancel is not None:
            dialogue_setup.on_cancel(dialogue.record())
        raise
    return dialogue.record()


class _Dialogue:
    """A dialogue in progress."""

    def __init__(self, task: Task, key: str, setup: DialogueSetup) -> None:
        self.task, self.key, self.setup = task, key, setup
        self.environment: Environment | None = None
        self.words: list[str | None] = []  # of the oracle, which no side of the dialogue sees
        self.usage: dict[str, dict[str, int | None]] = {
            side: {"prompt_tokens": 0, "completion_tokens": 0} for side in ("agent", "human")
        }
        self.leaks = 0
        self.too_long = False  # for the agent's context

    async def play(self) -> None:
        """Let the two sides speak in turns until the rules end the dialogue. Raises as `blamed` does."""
        task, setup, source = copy.deepcopy(self.task), self.setup, self.setup.source  # users' code may change its own
        seed = seed_for(setup.sampling.seed, self.key)
        with blamed("domain", source):
            environment = self.environment = setup.begin(task)
            while not environment.over:
                turn_seed = seed_for(seed, environment.turns)
                messages = environment.observe()
                with blamed("agent", source):
                    parts, completions = await self._candidates(messages, turn_seed)
                    self._count("agent", completions)
                completion = completions[0]
                if self.too_long:
                    environment.step(completion)
                    return
                if setup.choose is not None:
                    with blamed("critic", source):
                        tokenizer = None if parts is None or setup.agent.chat is None else setup.agent.chat.fingerprint
                        completion = completions[await setup.choose(task, messages, parts, completions, tokenizer)]
                environment.step(completion, None if parts is None else parts_text(parts))
                if setup.label_turn is not None:
                    word = setup.label_turn(task, copy.deepcopy(messages), environment.dialogue[-1]["content"])
                    _check(word, str | None, "label_turn returned")
                    self.words.append(word)
                if environment.over:
                    self.check_environment()
                    return
                dialogue = copy.deepcopy(environment.observe())
                with blamed("human", source):
                    name = f"{type(setup.human).__name__}.reply"
                    replying = setup.human.reply(copy.deepcopy(self.task), dialogue, seed_for(turn_seed, "human"))
                    if not inspect.isawaitable(replying):
                        raise UserError(f"{name} is no coroutine function: write `async def reply(...)`.")
                    reply = await replying
                    _check(reply, HumanReply, f"{name} returned")
                    _check(reply.text, str, f"{name} returned the text")
                    self._count("human", [reply])
                self.leaks += reply.leaks
                environment.add_human_reply(reply.text)

    def check_environment(self) -> None:
        """Raise TypeError, and forget the dialogue, if a user's environment has made one that cannot be written."""
        kind = type(self.environment)
        if self.environment is not None and not kind.__module__.startswith("sweet_rl."):
            try:
                row = json.dumps(self.record().to_dict(), allow_nan=False)
                Trajectory.from_dict(parse_row(row, kind.__name__), kind.__name__)
            except (KeyError, RecordError, TypeError, ValueError) as error:
                self.environment = None  # so that the failure can be written
                raise TypeError(str(error)) from error

    async def _candidates(self, messages: list[Message], seed: int) -> tuple[list[Part] | None, list[Completion]]:
        """The agent's prompt as parts, if its chat format is known, and its candidates.

        If the dialogue is too long for the agent's context, the agent says nothing, and the dialogue ends.
        """
        agent, sampling = self.setup.agent, replace(self.setup.sampling, seed=seed)
        parts = None if agent.chat is None else agent.chat.prompt(messages)
        try:
            if parts is None or agent.chat is None:
                return None, await agent.complete(messages, sampling)
            return parts, await agent.complete_parts(parts, sampling, agent.chat.fingerprint)
        except ModelError as error:
            if error.kind != "context":
                raise
            self.too_long = True
            return parts, [Completion("", None, None, OUTGROWN, 0, 0)]

    def _count(self, side: str, replies: Sequence[Completion | HumanReply]) -> None:
        read, written = replies[0].prompt_tokens, sum_or_none(reply.completion_tokens for reply in replies)
        usage = self.usage[side]
        usage["prompt_tokens"] = sum_or_none([usage["prompt_tokens"], read])  # candidates share one prompt
        usage["completion_tokens"] = sum_or_none([usage["completion_tokens"], written])
        if self.setup.on_message is not None:
            self.setup.on_message(side, written or 0)

    def record(self, failure: Failure | None = None) -> Trajectory:
        """The dialogue as it stands."""
        environment, chat = self.environment, self.setup.agent.chat
        history: list[Message] = [] if environment is None else list(environment.dialogue)
        turns = [index for index, message in enumerate(history) if message["role"] == "assistant"]
        ending = None if environment is None else environment.ending
        if self.too_long:
            ending, turns = ending or "turn_limit", turns[:-1]  # no model saw the last turn
        for index, word in zip(turns, self.words, strict=False):
            if word is not None:
                history[index] = {**history[index], "oracle": word}
        trajectory = Trajectory(
            task=self.task,
            dialogue_history=history,
            answer=None if environment is None else environment.answer,
            reward=None,
            id=self.key,
            ending="failed" if failure else ending,
            failure=failure,
            tokenizer=None if chat is None else chat.fingerprint,
            usage=self.usage,
            leaks=self.leaks,
            human=self.setup.human_identity,
            protocol=self.setup.protocol,
        )
        if chat is not None and turns:
            trajectory.parts = chat.dialogue(trajectory.seen(turns[-1] + 1))
        return trajectory


def _check(value: Any, kind: Any, what: str) -> None:
    if not isinstance(value, kind):
        expected = "a text or None" if kind == str | None else "a text" if kind is str else f"a {kind.__name__}"
        raise TypeError(f"{what} {shown(value)}; it must be {expected}")


async def play_all(
    jobs: Iterable[tuple[Task, int]], dialogue_setup: DialogueSetup, concurrency: int
) -> AsyncIterator[Trajectory]:
    """Play the dialogues of (task, sample) jobs, at most `concurrency` at the same time, in the order they end."""
    async for trajectory in as_they_finish(jobs, lambda job: play(*job, dialogue_setup), concurrency):
        yield trajectory
