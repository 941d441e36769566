"""Dialogues onto disk: the missing ones of a run are played, written one by one as they end, and summed up."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence

from tqdm.contrib.logging import logging_redirect_tqdm

from sweet_rl.models.base import ChatModel
from sweet_rl.records import Task
from sweet_rl.rollout.play import Collaboration, play_all, trajectory_id
from sweet_rl.rollout.progress import Progress
from sweet_rl.rollout.summary import summarise
from sweet_rl.runs.run import Run

Job = tuple[Task, int]  # a task and the number of its sample


async def collect(
    output: Run, jobs: Sequence[Job], collaboration: Collaboration, concurrency: int, models: Mapping[str, ChatModel]
) -> dict:
    """Plays those of `jobs` that the output does not hold, and returns the summary of the whole output.

    `models` are those that talk, by what the summary calls them; they are checked first, and closed in any case, as are
    the human and the one who chooses, where they have a `close`. Raises UserError where no dialogue can work.
    """
    before, start = len(output.done), time.monotonic()

    def missing() -> Iterator[Job]:
        return ((task, sample) for task, sample in jobs if trajectory_id(task, sample) not in output.done)

    try:
        for model in models.values():
            await model.check()
        with logging_redirect_tqdm(), Progress(len(jobs), before) as progress:
            shown = dataclasses.replace(collaboration, heard=progress.heard)
            async for trajectory in play_all(missing(), shown, concurrency):
                output.write(trajectory.to_dict())
                progress.ended(trajectory.ending == "failed")
    finally:
        for closable in (*models.values(), collaboration.human, collaboration.choose):
            if hasattr(closable, "close"):
                await closable.close()
    summary = summarise(output.records(), time.monotonic() - start, before)
    for name, model in models.items():
        if facts := getattr(model, "summary", dict)():
            summary[name] = facts
    return summary
