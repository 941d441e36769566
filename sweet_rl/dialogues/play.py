"""Play many dialogues concurrently, each at its own pace. A dialogue that fails is a record and stops no other."""

from __future__ import annotations

import logging
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from sweet_rl.dialogues.answer_environment import AnswerEnvironment
from sweet_rl.dialogues.simulated_human import Human, HumanReply, sum_or_none
from sweet_rl.models.base import ChatModel, Completion, Message, ModelError, Sampling
from sweet_rl.models.texts.chat import parts_text
from sweet_rl.runs.errors import UserError, masked
from sweet_rl.runs.records import Part, Task, Trajectory, seed_for
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
        choose: Selector of the candidate that is played (the paper, figure 3a); None plays the first.
        label_turn: See `Domain.label_turn`.
        human_identity: {name, hash} of the human, which the trajectories carry.
        protocol: Name of the protocol, which the trajectories carry (`Domain.protocol`).
    """

    agent: ChatModel
    human: Human
    begin: Callable[[Task], AnswerEnvironment]
    sampling: Sampling
    choose: CandidateSelector | None = None
    label_turn: Callable[[Task, list[Message], str], str | None] | None = None
    human_identity: dict[str, str] | None = None
    protocol: str | None = None


def trajectory_id(task: Task, sample: int) -> str:
    return f"{task.id}-{sample}"


async def play(task: Task, sample: int, setup: DialogueSetup) -> Trajectory:
    """Play one dialogue from its task to its end.

    All randomness comes from seed_for(run seed, trajectory id, turn): a dialogue does not depend on the dialogues that
    run beside it. If one side fails, the trajectory has `ending` "failed" and `failure` {kind, message, side}.

    Args:
        task: The task.
        sample: Number of this dialogue among those of its task; another number gives another dialogue.
        setup: The two sides and the rules.

    Raises:
        UserError: No dialogue can work: the chat template refuses the messages, or a server refuses the key.
    """
    dialogue = _Dialogue(task, trajectory_id(task, sample), setup)
    trajectory = dialogue.trajectory
    try:
        await dialogue.play()
    except UserError:
        raise
    except Exception as error:
        if isinstance(error, ModelError) and error.fatal:
            raise UserError(f"{dialogue.side}: {error.fatal}: {error}") from error
        kind = error.kind if isinstance(error, ModelError) else type(error).__name__
        place = "".join(traceback.format_tb(error.__traceback__))
        if not isinstance(error, ModelError) and place not in _shown:
            _shown.add(place)
            logger.warning("%s: the %s failed\n%s", trajectory.id, dialogue.side, masked(traceback.format_exc()))
        trajectory.failure = {"kind": kind, "message": masked(str(error))[:1000], "side": dialogue.side}
    dialogue.finish()
    return trajectory


class _Dialogue:
    """A dialogue in progress. `side` is whose turn it is, for failures: agent, critic, human, or the domain's rules."""

    def __init__(self, task: Task, key: str, setup: DialogueSetup) -> None:
        self.setup, self.side = setup, "domain"
        self.environment: AnswerEnvironment | None = None
        self.words: list[str | None] = []  # of the oracle, which no side of the dialogue sees
        self.too_long = False  # for the agent's context
        self.trajectory = Trajectory(
            task=task,
            dialogue_history=[],
            id=key,
            tokenizer=None if setup.agent.chat is None else setup.agent.chat.fingerprint,
            usage={side: {"prompt_tokens": 0, "completion_tokens": 0} for side in ("agent", "human")},
            leaks=0,
            human=setup.human_identity,
            protocol=setup.protocol,
        )

    async def play(self) -> None:
        """Let the two sides speak in turns until the rules end the dialogue."""
        setup, task = self.setup, self.trajectory.task
        seed = seed_for(setup.sampling.seed, self.trajectory.id)
        environment = self.environment = setup.begin(task)
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
                tokenizer = None if parts is None else self.trajectory.tokenizer
                completion = completions[await setup.choose(task, messages, parts, completions, tokenizer)]
            self.side = "domain"
            environment.step(completion, None if parts is None else parts_text(parts))
            if setup.label_turn is not None:
                self.words.append(setup.label_turn(task, messages, environment.dialogue[-1]["content"]))
            if environment.over:
                return
            self.side = "human"
            reply = await setup.human.reply(task, environment.observe(), seed_for(turn_seed, "human"))
            self._count("human", [reply])
            self.trajectory.leaks = (self.trajectory.leaks or 0) + reply.leaks
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
        usage = cast(dict, self.trajectory.usage)[side]
        read, written = replies[0].prompt_tokens, sum_or_none(reply.completion_tokens for reply in replies)
        usage["prompt_tokens"] = sum_or_none([usage["prompt_tokens"], read])  # candidates share one prompt
        usage["completion_tokens"] = sum_or_none([usage["completion_tokens"], written])

    def finish(self) -> None:
        """Fill the trajectory with the dialogue as it stands."""
        trajectory, environment, chat = self.trajectory, self.environment, self.setup.agent.chat
        if environment is not None:
            trajectory.dialogue_history = history = list(environment.dialogue)
            trajectory.answer, trajectory.ending = environment.answer, environment.ending
            turns = [index for index, message in enumerate(history) if message["role"] == "assistant"]
            if self.too_long:
                trajectory.ending, turns = environment.ending or "turn_limit", turns[:-1]  # no model saw the last turn
            for index, word in zip(turns, self.words, strict=False):
                if word is not None:
                    history[index] = {**history[index], "oracle": word}
            if chat is not None and turns:
                trajectory.parts = chat.dialogue(trajectory.seen(turns[-1] + 1))
        if trajectory.failure is not None:
            trajectory.ending = "failed"


def play_all(jobs: Iterable[tuple[Task, int]], setup: DialogueSetup, concurrency: int) -> AsyncGenerator[Trajectory]:
    """Play the dialogues of (task, sample) jobs, at most `concurrency` at the same time, in the order they end."""
    return cast(AsyncGenerator, as_they_finish(jobs, lambda job: play(*job, setup), concurrency))
