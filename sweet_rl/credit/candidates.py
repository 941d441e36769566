"""What else the agent could have said: candidates for every turn of a trajectory (PAPER step 3).

Each is sampled from the actor given o_t, the dialogue up to the turn, without the training-time information
c.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sweet_rl.errors import UserError
from sweet_rl.models.base import ChatModel, Message, Sampling
from sweet_rl.records import Part, Task, Trajectory, TurnCandidates, seed_for


@dataclass(frozen=True)
class Turn:
    """One turn to be sampled again: its prompt, and what the agent did say there. `index` counts the agent's
    messages from 0; `input` is a released text or our parts, `dialogue` the messages that it is made of."""

    id: str
    task: Task
    index: int
    input: str | list[Part]
    older_output: str
    tokenizer: str | None
    dialogue: list[Message]


def sample_tasks(trajectories: Sequence[Trajectory], fraction: float, seed: int) -> list[Trajectory]:
    """The trajectories of a seeded random `fraction` of the tasks, in the file's order, siblings kept
    together.

    At least one task is kept. A larger fraction with the same seed contains the smaller one's tasks.
    Raises UserError unless 0 < fraction <= 1.
    """
    if not 0 < fraction <= 1:
        raise UserError(f"the data fraction is {fraction}; it must be above 0 and at most 1 (1 takes every task).")
    tasks = sorted({trajectory.task.id for trajectory in trajectories})
    random.Random(seed_for(seed, "data_fraction")).shuffle(tasks)
    kept = set(tasks[: max(1, round(fraction * len(tasks)))])
    return [trajectory for trajectory in trajectories if trajectory.task.id in kept]


def turns_of(trajectory: Trajectory, model: ChatModel) -> list[Turn]:
    """Every turn of the agent, the answer included; none for a failed dialogue.

    The prompt is laid out by the model's chat format. Where a released row carries its `input` text, and the
    trajectory no parts, that text is the prompt. Raises UserError if there is neither.
    """
    if trajectory.ending == "failed":
        return []
    turns = []
    for place, message in enumerate(trajectory.dialogue_history):
        if message["role"] != "assistant":
            continue
        number = len(turns)
        shown = [{"role": row["role"], "content": row["content"]} for row in trajectory.dialogue_history[:place]]
        said = message.get("output") if message.get("output") is not None else message["content"]
        if trajectory.parts is None and message.get("input"):
            prompt, tokenizer = message["input"], None
        elif model.chat is not None:
            prompt = model.chat.prompt(trajectory.dialogue_history[:place], trajectory.tokenizer)
            tokenizer = model.chat.fingerprint
        else:
            raise UserError(
                f"the prompt of {trajectory.id}, turn {number} is not known: the row has no 'input' "
                "text and the model "
                "no tokenizer here. Give the tokenizer's folder or hub name."
            )
        turns.append(Turn(f"{trajectory.id}-{number}", trajectory.task, number, prompt, said, tokenizer, shown))
    return turns


async def sample_candidates(turn: Turn, model: ChatModel, sampling: Sampling) -> TurnCandidates:
    """`sampling.n` candidates for one turn; candidate i's seed is seed_for(sampling.seed, turn id) + i.

    additional_reference_logprobs are the sampling log-probs of every token. Raises ModelError.
    """
    parts = [{"text": turn.input, "train": False}] if isinstance(turn.input, str) else turn.input
    own = replace(sampling, seed=seed_for(sampling.seed, turn.id))
    completions = await model.complete_parts(parts, own, turn.tokenizer)

    def each(name: str) -> list | None:
        values = [getattr(completion, name) for completion in completions]
        return None if any(value is None for value in values) else values

    ids = each("token_ids")
    return TurnCandidates(
        id=turn.id,
        task=turn.task,
        turn=turn.index,
        input=turn.input,
        older_output=turn.older_output,
        additional_outputs=[completion.text for completion in completions],
        additional_reference_logprobs=each("logprobs"),
        additional_token_ids=ids,
        additional_finish_reasons=[completion.finish_reason for completion in completions],
        tokenizer=None if model.chat is None else model.chat.fingerprint,
        dialogue=turn.dialogue,
        eos_text=None if model.chat is None else model.chat.eos_text,
    )
