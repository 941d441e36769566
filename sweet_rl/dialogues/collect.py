"""Collect dialogues: play those that an output lacks, append each to it when it ends, show progress, summarise."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Annotated, Any

from tqdm.contrib.logging import logging_redirect_tqdm

from sweet_rl.dialogues.play import OUTGROWN, DialogueSetup, play_all, trajectory_id
from sweet_rl.models.base import ChatModel
from sweet_rl.runs.cli import UNRECORDED
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.progress import TERMINAL_INTERVAL, progress_bar, shown_regularly
from sweet_rl.runs.records import Task, human_label
from sweet_rl.runs.run import Run

Job = tuple[Task, int]  # a task and the number of its sample
SPEED_WINDOW = 60.0  # seconds that speeds are averaged over


@dataclasses.dataclass(frozen=True)
class CollectionSettings:
    """Which dialogues are played, and how long they are.

    Attributes:
        num_tasks: Number of tasks that are played, from the start of the file; all by default.
        dialogues_per_task: Number of dialogues per task.
        max_turns: Largest number of messages of the agent in one dialogue.
        exclude: List of tasks to leave out, JSONL, with a field `id` per row.
        retry_failed: Play the dialogues again that are recorded as failed.
        seed: Random seed of the dialogues.
        concurrency: Largest number of dialogues in progress.
    """

    num_tasks: int | None = None
    dialogues_per_task: int = 1
    max_turns: int = 10
    exclude: Annotated[str | None, UNRECORDED] = None  # an input, recorded by its hash
    retry_failed: Annotated[bool, UNRECORDED] = False
    seed: int = 0
    concurrency: Annotated[int, UNRECORDED] = 256

    def __post_init__(self) -> None:
        for name in ("num_tasks", "dialogues_per_task", "max_turns", "concurrency"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"--{name} is {value}; it must be at least 1.")

    def jobs(self, tasks: Sequence[Task]) -> list[Job]:
        """The dialogues of these tasks."""
        return [(task, sample) for task in tasks for sample in range(self.dialogues_per_task)]


async def collect(
    output: Run, jobs: Sequence[Job], dialogue_setup: DialogueSetup, concurrency: int, models: Mapping[str, ChatModel]
) -> dict:
    """Play the `jobs` that the output does not hold; in the end its records are in their order.

    Args:
        output: The open output, to which trajectories are appended.
        jobs: All dialogues of the run.
        dialogue_setup: The two sides and the rules.
        concurrency: Largest number of dialogues in progress.
        models: The models of both sides, by their name in the summary. They are checked first and closed at the end,
            as are the human and `choose` if they have a `close`.

    Returns:
        The summary of the whole output (`summarise_dialogues`), with the models' own figures.

    Raises:
        UserError: No dialogue can work, for example because a server does not have the model.
    """
    before, start = len(output.done), time.monotonic()

    def missing() -> Iterator[Job]:
        return ((task, sample) for task, sample in jobs if trajectory_id(task, sample) not in output.done)

    try:
        for model in models.values():
            await model.check()
        with logging_redirect_tqdm(), Progress(len(jobs), before) as progress:
            shown = dataclasses.replace(dialogue_setup, on_message=progress.on_message)
            async with shown_regularly(progress.show):
                async for trajectory in play_all(missing(), shown, concurrency):
                    output.write(trajectory.to_dict())
                    progress.on_dialogue(trajectory.ending == "failed")
    finally:
        for closable in (*models.values(), dialogue_setup.human, dialogue_setup.choose):
            close = getattr(closable, "close", None)
            if close is not None:
                await close()
    summary = summarise_dialogues(output.records(), time.monotonic() - start, before)
    output.sort(trajectory_id(task, sample) for task, sample in jobs)
    for name, model in models.items():
        facts: dict = getattr(model, "summary", dict)()
        if facts:
            summary[name] = facts
    return summary


class Progress(AbstractContextManager):
    """The progress line of a run: dialogues done and failed, turns and tokens per second, time left, rate limits.

    A context manager. Speeds are those of the last minute.

    Args:
        total: Number of dialogues.
        before: Number of dialogues that were done before.
        file: As for `progress_bar`.
        waiting: Functions that return what a model waits for.
    """

    def __init__(
        self, total: int, before: int = 0, file: Any = None, waiting: Sequence[Callable[[], str]] = ()
    ) -> None:
        self._waiting = waiting
        self._bar = progress_bar(file=file, total=total, initial=before, desc="dialogues", unit="dialogue")
        self._counts: Counter[str] = Counter()
        self._history: deque[tuple[float, Counter[str]]] = deque([(time.monotonic(), Counter())])
        self._shown = time.monotonic()

    def on_message(self, side: str, tokens: int) -> None:
        """Count a message. Agent messages also count as turns."""
        self._counts[side] += tokens
        self._counts["turns"] += side == "agent"
        if time.monotonic() - self._shown >= TERMINAL_INTERVAL:
            self.show()

    def on_dialogue(self, failed: bool) -> None:
        """Count a dialogue that has been written."""
        self._counts["failed"] += failed
        self._bar.update()

    def speeds(self) -> dict[str, float]:
        """Turns, agent tokens and human tokens per second."""
        then, before = self._history[0]
        seconds = max(time.monotonic() - then, 1e-9)
        return {name: (self._counts[name] - before[name]) / seconds for name in ("turns", "agent", "human")}

    def show(self) -> None:
        """Bring the line up to date."""
        now = self._shown = time.monotonic()
        speeds = self.speeds()
        figures = (
            f"failed {self._counts['failed']}, {speeds['turns']:.1f} turns/s, "
            f"tokens/s agent {speeds['agent']:.0f} human {speeds['human']:.0f}"
        )
        self._bar.set_postfix_str(", ".join(filter(None, (figures, *(text() for text in self._waiting)))))
        self._history.append((now, self._counts.copy()))
        while len(self._history) > 1 and now - self._history[0][0] > SPEED_WINDOW:
            self._history.popleft()

    def __exit__(self, *_: object) -> None:
        self.show()
        self._bar.close()


def summarise_dialogues(rows: Iterable[dict], seconds: float | None = None, before: int = 0) -> dict[str, Any]:
    """Summarise trajectory rows: endings, failures by side and kind with the first message of each, turns, messages of
    the agent that are empty or were cut by the token limit, tokens of both sides, leaks, speeds.

    Args:
        rows: Trajectories as they are on disk; they are read once and not kept.
        seconds: Time that all rows but the first `before` took.
        before: Number of rows of an earlier, interrupted process; they are left out of the speeds.
    """
    endings: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    fresh: Counter[str] = Counter()
    humans: Counter[str] = Counter()
    messages: dict[str, str] = {}
    dialogues = turns = leaks = with_leaks = empty = cut = with_empty_or_cut = outgrown = 0
    for row in rows:
        dialogues += 1
        endings[row.get("ending") or "unknown"] += 1
        humans[human_label(row.get("human"))] += 1
        if row.get("failure"):
            kind = f"{row['failure'].get('side')}: {row['failure'].get('kind')}"
            failures[kind] += 1
            messages.setdefault(kind, row["failure"].get("message", ""))
        spoken = [message for message in row["dialogue_history"] if message["role"] == "assistant"]
        own_turns, faulty = len(spoken), 0
        for message in spoken:
            is_empty, is_cut = not message["content"].strip(), message.get("finish_reason") == "length"
            empty, cut, faulty = empty + is_empty, cut + is_cut, faulty + (is_empty or is_cut)
        with_empty_or_cut += faulty > 0
        outgrown += bool(spoken) and spoken[-1].get("finish_reason") == OUTGROWN
        turns += own_turns
        leaks += row.get("leaks", 0)
        with_leaks += row.get("leaks", 0) > 0
        used_tokens = {
            f"{side}_{name}": n
            for side, used in row.get("usage", {}).items()
            for name, n in used.items()
            if n is not None
        }
        tokens.update(used_tokens)
        if dialogues > before:
            fresh.update({"dialogues": 1, "turns": own_turns, **used_tokens})
    summary: dict[str, Any] = {
        "dialogues": dialogues,
        "humans": dict(sorted(humans.items())),
        "endings": dict(sorted(endings.items())),
        "failures": dict(sorted(failures.items())),
        "turns": turns,
        "turns_per_dialogue": round(turns / dialogues, 2) if dialogues else 0.0,
        "empty_messages": empty,
        "cut_messages": cut,
        "dialogues_with_empty_or_cut_messages": with_empty_or_cut,
        "dialogues_too_long_for_the_agent": outgrown,
        "simulator_leaks": leaks,
        "dialogues_with_leaks": with_leaks,
        "tokens": dict(sorted(tokens.items())),
    }
    if messages:
        summary["first_messages"] = dict(sorted(messages.items()))
    if seconds and fresh:
        summary |= {
            "seconds": round(seconds, 1),
            "dialogues_per_second": round(fresh["dialogues"] / seconds, 2),
            "turns_per_second": round(fresh["turns"] / seconds, 2),
            "agent_tokens_per_second": round(fresh["agent_completion_tokens"] / seconds, 1),
            "human_tokens_per_second": round(fresh["human_completion_tokens"] / seconds, 1),
        }
    return summary
