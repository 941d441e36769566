"""Candidates: for each turn of a trajectory, other messages that the policy could have written there (step 4).

Each is sampled from the policy given o_t, the dialogue up to the turn, without the privileged information c.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from sweet_rl.models.base import ChatModel, Completion, Sampling
from sweet_rl.models.load import load_model
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.texts.released_texts import refuse_unasked
from sweet_rl.models.weights import model_input
from sweet_rl.runs.cli import UNRECORDED, to_settings
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Part, Trajectory, TurnCandidates, read_records, seed_for
from sweet_rl.runs.run import Run, open_run
from sweet_rl.runs.step import StepSettings, shard_of, write_results


@dataclass(frozen=True)
class CandidateSettings:
    """The policy that candidates are sampled from, and the trajectories whose turns get some.

    Attributes:
        model_id: Policy: `mini`, a checkpoint folder, a hub name, or a server's name for it.
        data_fraction: Share of the tasks, a random sample, each with all its trajectories (paper: 0.1).
        concurrency: Largest number of turns in progress.
        seed: Random seed of the sample of tasks and of the candidates.
    """

    model_id: str
    data_fraction: float = 1.0
    concurrency: Annotated[int, UNRECORDED] = 64
    seed: int = 0


def sample_tasks(trajectories: Sequence[Trajectory], fraction: float, seed: int) -> list[Trajectory]:
    """The trajectories of a random sample of the tasks, in the order of the file.

    All trajectories of a task are kept or none. With the same seed, a larger fraction contains the tasks of a smaller
    one. Raises UserError if the fraction, of which at least one task is kept, is not above 0 and at most 1.
    """
    if not 0 < fraction <= 1:
        raise UserError(f"--data_fraction is {fraction}; it must be above 0 and at most 1 (1 takes every task).")
    tasks = sorted({trajectory.task.id for trajectory in trajectories})
    random.Random(seed_for(seed, "data_fraction")).shuffle(tasks)
    kept = set(tasks[: max(1, round(fraction * len(tasks)))])
    return [trajectory for trajectory in trajectories if trajectory.task.id in kept]


def turns_of(trajectory: Trajectory, chat: ChatFormat | None) -> list[TurnCandidates]:
    """Every turn of the agent, the answer included, without candidates; no turn if the dialogue failed.

    The prompt is laid out by `chat`, and empty without one. If a released row has its `input` text, and the trajectory
    has no parts, that text is the prompt, and `tokenizer` is None.

    Raises:
        UserError: There is no message of the human before one of the agent.
    """
    if trajectory.ending == "failed":
        return []
    turns: list[TurnCandidates] = []
    for place, message in enumerate(trajectory.dialogue_history):
        if message["role"] != "assistant":
            continue
        before = trajectory.seen(place)
        prompt: str | list[Part] = []
        tokenizer = None
        if trajectory.parts is None and (text := message.get("input")):
            prompt = text
        elif chat is not None:
            if not before or before[-1]["role"] == "assistant":
                refuse_unasked(trajectory, place)
            prompt, tokenizer = chat.prompt(before, trajectory.tokenizer), chat.fingerprint
        sampled = message.get("output")
        turn = TurnCandidates(
            input=prompt,
            older_output=message["content"] if sampled is None else sampled,
            additional_outputs=[],
            id=f"{trajectory.id}-{len(turns)}",
            task=trajectory.task,
            turn=len(turns),
            tokenizer=tokenizer,
            dialogue=[{"role": row["role"], "content": row["content"]} for row in before],
        )
        turn.where = trajectory.where
        turns.append(turn)
    return turns


async def sample_candidates(turn: TurnCandidates, model: ChatModel, sampling: Sampling) -> TurnCandidates:
    """The turn with `sampling.n` candidates. Candidate i has the seed seed_for(sampling.seed, turn id) + i.

    Raises:
        ModelError: The call failed.
        UserError: The prompt cannot be tokenised.
    """
    if model.chat is None:
        raise UserError(f"the prompt of {turn.id} is sent as token ids: give --tokenizer, a folder or hub name.")
    parts: list[Part] = [{"text": turn.input, "train": False}] if isinstance(turn.input, str) else turn.input
    ids, _ = model.chat.encode(parts, turn.tokenizer, turn.place("turn"))
    completions = await model.complete(ids, replace(sampling, seed=seed_for(sampling.seed, turn.id)))
    turn = replace(turn, tokenizer=model.chat.fingerprint, eos_text=model.chat.eos_text)
    return with_candidates(turn, completions)


def with_candidates(turn: TurnCandidates, completions: Sequence[Completion]) -> TurnCandidates:
    """The turn with these candidates; log-probs or token ids that one of them lacks are None for all."""
    logprobs: list[Any] = [completion.logprobs for completion in completions]
    ids: list[Any] = [completion.token_ids for completion in completions]
    return replace(
        turn,
        additional_outputs=[completion.text for completion in completions],
        additional_reference_logprobs=None if None in logprobs else logprobs,
        additional_token_ids=None if None in ids else ids,
        additional_finish_reasons=[completion.finish_reason for completion in completions],
    )


def sample_file(
    settings: CandidateSettings,
    sampling: Sampling,
    model: ModelSettings,
    calls: CallSettings,
    input_path: str,
    output_path: str,
    step: StepSettings,
) -> dict[str, Any]:
    """Write candidates for every turn of a file of trajectories. A killed run continues with the same call.

    Returns:
        The summary: tasks, trajectories, trajectories_read, failed_dialogues_left_out, and those of `sample_turns`.

    Raises:
        UserError: Before anything is written; or, once the other turns are written, because some could not be sampled.
    """
    recorded = to_settings(settings, model, step, sampling=sampling)
    inputs = [input_path, model_input(settings.model_id)]
    with open_run(output_path, recorded, inputs, step.overwrite) as run:
        if run.finished:
            return run.show()
        read = read_records(input_path, Trajectory)
        trajectories = shard_of(sample_tasks(read, settings.data_fraction, settings.seed), step.shard)
        summary = {
            "tasks": len({trajectory.task.id for trajectory in trajectories}),
            "trajectories": len(trajectories),
            "trajectories_read": len(read),
            "failed_dialogues_left_out": sum(trajectory.ending == "failed" for trajectory in trajectories),
        }
        policy, seeded = load_model(settings.model_id, model, calls), replace(sampling, seed=settings.seed)
        summary |= asyncio.run(sample_turns(run, trajectories, policy, seeded, settings.concurrency))
        return run.finish(summary, may_be_empty=not trajectories)  # with more shards than tasks


async def sample_turns(
    run: Run, trajectories: Sequence[Trajectory], model: ChatModel, sampling: Sampling, concurrency: int
) -> dict[str, Any]:
    """Sample candidates for every turn that `run` does not have yet, and write them there, in the turns' order.

    Returns:
        The summary: turns, candidates, finish_reasons.
    """

    async def sample(turn: TurnCandidates) -> list[dict]:
        return [(await sample_candidates(turn, model, sampling)).to_dict()]

    played = [trajectory for trajectory in trajectories if trajectory.ending != "failed"]
    missing = (turn for row in played for turn in turns_of(row, model.chat) if turn.id not in run.done)
    try:
        await model.check()
        total = sum(row.turns for row in played)
        await write_results(run, missing, sample, concurrency, total, "turn")
    finally:
        await model.close()
    run.sort(f"{row.id}-{turn}" for row in played for turn in range(row.turns))
    reasons: Counter[str] = Counter()
    for row in run.records():
        reasons.update(row.get("additional_finish_reasons") or [])
    return {
        "turns": len(run.done),
        "candidates": sum(reasons.values()),
        "finish_reasons": dict(sorted(reasons.items())),
    } | getattr(model, "summary", dict)()
