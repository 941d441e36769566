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
OUTGROWN = "context"  # finish_reason of the empty last message if the agent's context is full

CandidateSelector = Callable[[Task, list[Message], list[Part] | None, Sequence[Completion], str | None], Awaitable[int]]
"""Chooses which of several candidates for a turn is played: `choose(task, messages, prompt, candidates, tokenizer)`.

`messages` is the dialogue before the turn, `prompt` the same as parts, and `tokenizer` the fingerprint of the tokenizer
of the candidates' ids. `prompt` and `tokenizer` may be None.
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
    run beside it. If a side fails (agent, critic, human, or the domain's rules), the trajectory has `ending` "failed"
    and `failure` {kind, message, side}.

    Args:
        task: The task.
        sample: Number of this dialogue among those of its task; another number gives another dialogue.
        setup: The two sides and the rules.

    Raises:
        UserError: No dialogue can work: the chat template refuses the messages, or a server refuses the key.
    """
    chat = setup.agent.chat
    usage: dict[str, dict[str, int | None]] = {
        side: {"prompt_tokens": 0, "completion_tokens": 0} for side in ("agent", "human")
    }
    trajectory = Trajectory(
        task=task,
        dialogue_history=[],
        id=trajectory_id(task, sample),
        tokenizer=None if chat is None else chat.fingerprint,
        usage=usage,
        human=setup.human_identity,
        protocol=setup.protocol,
    )
    environment, side, leaks = None, "domain", 0
    labels: list[str | None] = []  # of `label_turn`; no model sees them
    context_full = False  # of the agent
    seed = seed_for(setup.sampling.seed, trajectory.id)
    try:
        environment = setup.begin(task)
        while not environment.over:
            turn_seed = seed_for(seed, environment.turns)
            messages = environment.observe()
            side = "agent"
            parts = None if chat is None else chat.prompt(messages)
            prompt = messages if chat is None or parts is None else chat.encode(parts, chat.fingerprint)[0]
            try:
                completions = await setup.agent.complete(prompt, replace(setup.sampling, seed=turn_seed))
            except ModelError as error:
                if error.kind != "context":
                    raise
                context_full = True  # the agent's last message is empty, and the dialogue ends
                environment.step(Completion("", None, None, OUTGROWN, 0, 0))
                break
            _count(usage[side], completions)
            chosen = 0
            if setup.choose is not None:
                side = "critic"
                chosen = await setup.choose(task, messages, parts, completions, trajectory.tokenizer)
            side = "domain"
            environment.step(completions[chosen], None if parts is None else parts_text(parts))
            if setup.label_turn is not None:
                labels.append(setup.label_turn(task, messages, environment.dialogue[-1]["content"]))
            if environment.over:
                break
            side = "human"
            reply = await setup.human.reply(task, environment.observe(), seed_for(turn_seed, "human"))
            _count(usage[side], [reply])
            leaks += reply.leaks
            side = "domain"
            environment.add_human_reply(reply.text)
    except UserError:
        raise
    except Exception as error:
        if isinstance(error, ModelError) and error.fatal:
            raise UserError(f"{side}: {error.fatal}: {error}") from error
        kind = error.kind if isinstance(error, ModelError) else type(error).__name__
        place = "".join(traceback.format_tb(error.__traceback__))
        if not isinstance(error, ModelError) and place not in _shown:
            _shown.add(place)
            logger.warning("%s: the %s failed\n%s", trajectory.id, side, masked(traceback.format_exc()))
        trajectory.failure = {"kind": kind, "message": masked(str(error))[:1000], "side": side}
    trajectory.leaks = leaks
    if environment is not None:
        trajectory.dialogue_history = history = list(environment.dialogue)
        trajectory.answer, trajectory.ending = environment.answer, environment.ending
        turns = [index for index, message in enumerate(history) if message["role"] == "assistant"]
        if context_full:
            trajectory.ending, turns = environment.ending or "turn_limit", turns[:-1]  # no model saw the last turn
        for index, label in zip(turns, labels, strict=False):
            if label is not None:
                history[index] = {**history[index], "oracle": label}
        if chat is not None and turns:
            trajectory.parts = chat.dialogue(trajectory.seen(turns[-1] + 1))
    if trajectory.failure is not None:
        trajectory.ending = "failed"
    return trajectory


def _count(usage: dict[str, int | None], replies: Sequence[Completion | HumanReply]) -> None:
    """Add the tokens of a message; its candidates share one prompt."""
    written = sum_or_none(reply.completion_tokens for reply in replies)
    usage["prompt_tokens"] = sum_or_none([usage["prompt_tokens"], replies[0].prompt_tokens])
    usage["completion_tokens"] = sum_or_none([usage["completion_tokens"], written])


def play_all(jobs: Iterable[tuple[Task, int]], setup: DialogueSetup, concurrency: int) -> AsyncGenerator[Trajectory]:
    """Play the dialogues of (task, sample) jobs, at most `concurrency` at the same time, in the order they end."""
    return cast(AsyncGenerator, as_they_finish(jobs, lambda job: play(*job, setup), concurrency))
