"""Play many dialogues concurrently, each at its own pace. A dialogue that fails is a record and stops no other."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from sweet_rl.dialogues.answer_environment import AnswerEnvironment
from sweet_rl.dialogues.protocols import Human, HumanReply, sum_or_none
from sweet_rl.models.base import ChatModel, Completion, Message, ModelError, Sampling
from sweet_rl.models.texts.chat import parts_text
from sweet_rl.runs.errors import UserError, masked
from sweet_rl.runs.records import Part, Task, Trajectory, seed_for
from sweet_rl.runs.records.schema import Failure
from sweet_rl.runs.step import as_they_finish

logger = logging.getLogger(__name__)
_shown: set[str] = set()  # places of errors whose traceback was logged
OUTGROWN = "context"  # finish_reason of the empty message with which a dialogue that is too long for its agent ends


CandidateSelector = Callable[[Task, list[Message], list[Part] | None, Sequence[Completion], str | None], Awaitable[int]]
"""Chooses which of several candidates for a turn is played: `choose(task, messages, prompt, candidates, tokenizer)`.

`messages` is the dialogue before the turn, `prompt` the same as parts and `tokenizer` the fingerprint of the one that
the candidates' ids belong to; both are None if not known.
"""


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
        on_cancel: Callback(trajectory), called with the dialogue as it stands if its task is cancelled.
        protocol: Name of the protocol, which the trajectories carry (`Domain.protocol`).
    """

    agent: ChatModel
    human: Human
    begin: Callable[[Task], AnswerEnvironment]
    sampling: Sampling
    choose: CandidateSelector | None = None
    label_turn: Callable[[Task, list[Message], str], str | None] | None = None
    human_identity: dict[str, str] | None = None
    on_cancel: Callable[[Trajectory], None] | None = None
    protocol: str | None = None

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
        task: The task.
        sample: Number of this dialogue among those of its task; another number gives another dialogue.
        dialogue_setup: The two sides and the rules.

    Raises:
        UserError: No dialogue can work: the chat template refuses the messages, or a server refuses the key.
    """
    dialogue = _Dialogue(task, trajectory_id(task, sample), dialogue_setup)
    try:
        await dialogue.play()
    except asyncio.CancelledError:
        if dialogue_setup.on_cancel is not None:
            dialogue_setup.on_cancel(dialogue.record())
        raise
    except UserError:
        raise
    except ModelError as error:
        if error.fatal:
            raise UserError(f"{dialogue.side}: {error.fatal}: {error}") from error
        return dialogue.record({"kind": error.kind, "message": str(error)[:1000], "side": dialogue.side})
    except Exception as error:
        place = "".join(traceback.format_tb(error.__traceback__))
        if place not in _shown:
            _shown.add(place)
            logger.warning("%s: the %s failed\n%s", dialogue.key, dialogue.side, masked(traceback.format_exc()))
        message = masked(str(error))[:1000]
        return dialogue.record({"kind": type(error).__name__, "message": message, "side": dialogue.side})
    return dialogue.record()


class _Dialogue:
    """A dialogue in progress. `side` is whose turn it is, for failures: agent, critic, human, or the domain's rules."""

    def __init__(self, task: Task, key: str, setup: DialogueSetup) -> None:
        self.task, self.key, self.setup, self.side = task, key, setup, "domain"
        self.environment: AnswerEnvironment | None = None
        self.words: list[str | None] = []  # of the oracle, which no side of the dialogue sees
        self.usage: dict[str, dict[str, int | None]] = {
            side: {"prompt_tokens": 0, "completion_tokens": 0} for side in ("agent", "human")
        }
        self.leaks = 0
        self.too_long = False  # for the agent's context

    async def play(self) -> None:
        """Let the two sides speak in turns until the rules end the dialogue."""
        setup = self.setup
        seed = seed_for(setup.sampling.seed, self.key)
        environment = self.environment = setup.begin(self.task)
        while not environment.over:
            turn_seed = seed_for(seed, environment.turns)
            messages = environment.observe()
            self.side = "agent"
            parts, completions = await self._candidates(messages, turn_seed)
            self._count("agent", completions)
            completion = completions[0]
            if self.too_long:
                environment.step(completion)
                return
            if setup.choose is not None:
                self.side = "critic"
                tokenizer = None if parts is None or setup.agent.chat is None else setup.agent.chat.fingerprint
                completion = completions[await setup.choose(self.task, messages, parts, completions, tokenizer)]
            self.side = "domain"
            environment.step(completion, None if parts is None else parts_text(parts))
            if setup.label_turn is not None:
                self.words.append(setup.label_turn(self.task, messages, environment.dialogue[-1]["content"]))
            if environment.over:
                return
            self.side = "human"
            reply = await setup.human.reply(self.task, environment.observe(), seed_for(turn_seed, "human"))
            self._count("human", [reply])
            self.leaks += reply.leaks
            self.side = "domain"
            environment.add_human_reply(reply.text)

    async def _candidates(self, messages: list[Message], seed: int) -> tuple[list[Part] | None, list[Completion]]:
        """The agent's prompt as parts, if its chat format is known, and its candidates.

        If the dialogue is too long for the agent's context, the agent says nothing, and the dialogue ends.
        """
        agent, sampling = self.setup.agent, replace(self.setup.sampling, seed=seed)
        parts = None if agent.chat is None else agent.chat.prompt(messages)
        try:
            if parts is None or agent.chat is None:
                return None, await agent.complete(messages, sampling)
            ids, _ = agent.chat.encode(parts, agent.chat.fingerprint)
            return parts, await agent.complete(ids, sampling)
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


def play_all(
    jobs: Iterable[tuple[Task, int]], dialogue_setup: DialogueSetup, concurrency: int
) -> AsyncGenerator[Trajectory]:
    """Play the dialogues of (task, sample) jobs, at most `concurrency` at the same time, in the order they end."""
    return cast(AsyncGenerator, as_they_finish(jobs, lambda job: play(*job, dialogue_setup), concurrency))
