"""The bill of dialogues before they are played: what they cost at most, without the calls that a cache holds."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sweet_rl.dialogues.collect import Job
from sweet_rl.dialogues.estimate import Cost, Lengths, rest_of_dialogue
from sweet_rl.dialogues.play import play_all, trajectory_id
from sweet_rl.dialogues.simulate import Simulation
from sweet_rl.models.cache import CallCache
from sweet_rl.runs.records import Task


def bill(
    simulation: Simulation, tasks: Sequence[Task], output_path: str | None, cache: CallCache | None
) -> dict[str, Cost]:
    """What the dialogues cost at most, by side ("agent", "human"). Nothing is asked.

    Stored calls are found by playing every dialogue as far as the cache holds the replies.

    Args:
        simulation: The dialogues.
        tasks: Their tasks.
        output_path: File of which the dialogues are not played again; it may not exist. None: all are played.
        cache: Cache with replies; None if there is none.
    """
    collection, sides = simulation.collection, simulation.paid_prompts()
    lengths = Lengths.of(tasks, simulation.domain.draws_pages)
    done = set() if output_path is None else _played(Path(output_path), collection.retry_failed)
    jobs = [(task, sample) for task, sample in collection.jobs(tasks) if trajectory_id(task, sample) not in done]
    stored = {} if cache is None or not jobs else asyncio.run(_stored_messages(simulation, jobs, cache))
    total = dict.fromkeys(sides, Cost())
    for task, sample in jobs:
        known = stored.get(trajectory_id(task, sample), (0, 0))
        if known is None:
            continue
        rest = rest_of_dialogue(task, collection.max_turns, sides, lengths, simulation.sampling.n, known)
        total = {side: cost + rest[side] for side, cost in total.items()}
    return total


async def _stored_messages(
    simulation: Simulation, jobs: Sequence[Job], cache: CallCache
) -> dict[str, tuple[int, int] | None]:
    """Numbers of stored messages of agent and human by dialogue; None for a dialogue that is stored to its end."""
    found: dict[str, tuple[int, int] | None] = {}
    with contextlib.ExitStack() as resources:
        agent, human = simulation.models(resources, cache)
        setup = simulation.setup(resources, cache.without_calls(agent), human and cache.without_calls(human))
        async for trajectory in play_all(jobs, replace(setup, on_message=None), simulation.collection.concurrency):
            roles = [message["role"] for message in trajectory.dialogue_history]
            messages = roles.count("assistant"), roles.count("user") - 1  # the first is the task
            found[trajectory.id] = messages if trajectory.ending == "failed" else None
        for model in (agent, human):
            if model is not None:
                await model.close()
    return found


def _played(path: Path, retry_failed: bool) -> set[str]:
    """Ids of the dialogues in a file, which may have been cut in its last line."""
    found = set()
    for line in path.read_bytes().splitlines() if path.exists() else []:
        with contextlib.suppress(ValueError, TypeError, KeyError):
            row = json.loads(line)
            if not (retry_failed and row.get("ending") == "failed"):
                found.add(row["id"])
    return found
