"""Candidates: for each turn of a trajectory, other messages that the policy could have written there (step 4).

Each is sampled from the policy given o_t, the dialogue up to the turn, without the privileged information c.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sweet_rl.errors import UserError
from sweet_rl.models.base import ChatModel, Completion, ModelError, Sampling
from sweet_rl.progress import progress_bar
from sweet_rl.records import Trajectory, TurnCandidates, seed_for
from sweet_rl.runs.run import Run
from sweet_rl.runs.step import as_they_finish


def sample_tasks(trajectories: Sequence[Trajectory], fraction: float, seed: int) -> list[Trajectory]:
    """The trajectories of a random sample of the tasks, in the order of the file.

    All trajectories of a task are kept or none. With the same seed, a larger fraction contains the tasks of a smaller
    one.

    Args:
        fraction: share of the tasks; at least one task is kept.

    Raises:
        UserError: unless 0 < fraction <= 1.
    """
    if not 0 < fraction <= 1:
        raise UserError(f"--data_fraction is {fraction}; it must be above 0 and at most 1 (1 takes every task).")
    tasks = sorted({trajectory.task.id for trajectory in trajectories})
    random.Random(seed_for(seed, "data_fraction")).shuffle(tasks)
    kept = set(tasks[: max(1, round(fraction * len(tasks)))])
    return [trajectory for trajectory in trajectories if trajectory.task.id in kept]


def turns_of(trajectory: Trajectory, model: ChatModel) -> list[TurnCandidates]:
    """Every turn of the agent, the answer included, without candidates; no turn if the dialogue failed.

    The prompt is laid out by the chat format of `model`. If a released row has its `input` text, and the trajectory
    has no parts, that text is the prompt, and `tokenizer` is None.

    Raises:
        UserError: there is neither such a text nor a chat format.
    """
    if trajectory.ending == "failed":
        return []
    turns = []
    for place, message in enumerate(trajectory.dialogue_history):
        if message["role"] != "assistant":
            continue
        number = len(turns)
        before = trajectory.dialogue_history[:place]
        if trajectory.parts is None and message.get("input"):
            prompt, tokenizer = message["input"], None
        elif model.chat is not None:
            prompt, tokenizer = model.chat.prompt(before, trajectory.tokenizer), model.chat.fingerprint
        else:
            raise UserError(
                f"the prompt of {trajectory.id}, turn {number} is not known: the row has no 'input' text and the model "
                "no tokenizer here. Give the tokenizer's folder or hub name."
            )
        output = message["content"] if message.get("output") is None else message["output"]
        dialogue = [{"role": row["role"], "content": row["content"]} for row in before]
        turns.append(
            TurnCandidates(
                prompt, output, [], id=f"{trajectory.id}-{number}", task=trajectory.task, turn=number,
                tokenizer=tokenizer, dialogue=dialogue,
            )
        )  # fmt: skip
    return turns


async def sample_candidates(turn: TurnCandidates, model: ChatModel, sampling: Sampling) -> TurnCandidates:
    """The turn with `sampling.n` candidates. Candidate i has the seed seed_for(sampling.seed, turn id) + i.

    Raises:
        ModelError: the call failed.
    """
    parts = [{"text": turn.input, "train": False}] if isinstance(turn.input, str) else turn.input
    completions = await model.complete_parts(
        parts, replace(sampling, seed=seed_for(sampling.seed, turn.id)), turn.tokenizer
    )
    return replace(
        turn,
        tokenizer=None if model.chat is None else model.chat.fingerprint,
        eos_text=None if model.chat is None else model.chat.eos_text,
        **candidate_fields(completions),
    )


def candidate_fields(completions: Sequence[Completion]) -> dict[str, list | None]:
    """The fields of TurnCandidates that hold the candidates; None for log-probs or token ids that are not known."""

    def known(values: list) -> list | None:
        return None if any(value is None for value in values) else values

    return {
        "additional_outputs": [completion.text for completion in completions],
        "additional_reference_logprobs": known([completion.logprobs for completion in completions]),
        "additional_token_ids": known([completion.token_ids for completion in completions]),
        "additional_finish_reasons": [completion.finish_reason for completion in completions],
    }


async def sample_file(
    output: Run, trajectories: Sequence[Trajectory], model: ChatModel, sampling: Sampling, concurrency: int
) -> dict[str, Any]:
    """Sample candidates for every turn that `output` does not have yet, and write them there, in the turns' order.

    Args:
        concurrency: turns in progress at the same time.

    Returns:
        The summary: turns, candidates, finish_reasons, turns_failed (by kind of error), seconds, tokens_per_second.

    Raises:
        UserError: the server refuses the key or the model.
    """
    start, tokens, failures = time.monotonic(), 0, Counter()

    async def sample(turn: TurnCandidates) -> TurnCandidates | ModelError:
        try:
            return await sample_candidates(turn, model, sampling)
        except ModelError as error:
            if error.kind == "auth":
                raise UserError(f"the server refuses the key or the model: {error}") from error
            return error

    played = [trajectory for trajectory in trajectories if trajectory.ending != "failed"]
    total = sum(message["role"] == "assistant" for row in played for message in row.dialogue_history)
    waiting = (turn for row in played for turn in turns_of(row, model) if turn.id not in output.done)
    try:
        await model.check()
        with progress_bar(total=total, initial=len(output.done), desc="turns", unit="turn") as bar:
            async for result in as_they_finish(waiting, sample, concurrency):
                if isinstance(result, ModelError):
                    failures[result.kind] += 1
                else:
                    output.write(result.to_dict())
                    tokens += sum(map(len, result.additional_token_ids or []))
                bar.update()
    finally:
        await model.close()
    output.sort(f"{row.id}-{turn}" for row in played for turn in range(len(row.dialogue_history)))
    seconds = time.monotonic() - start
    reasons = Counter()
    for row in output.records():
        reasons.update(row.get("additional_finish_reasons") or [])
    return {
        "turns": len(output.done),
        "candidates": sum(reasons.values()),
        "finish_reasons": dict(sorted(reasons.items())),
        "turns_failed": dict(sorted(failures.items())),
        "seconds": round(seconds, 1),
        "tokens_per_second": round(tokens / seconds, 1) if seconds else 0.0,
    } | getattr(model, "summary", dict)()
