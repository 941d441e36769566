"""Many dialogues at once, each at its own pace; a failure is a record and stops nothing else."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from sweet_rl.chat import parts_text
from sweet_rl.environments import CodeCollaboration
from sweet_rl.errors import UserError
from sweet_rl.humans import Human
from sweet_rl.models.base import ChatModel, Completion, ModelError, Sampling
from sweet_rl.records import Task, Trajectory, seed_for

Job = TypeVar("Job")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Collaboration:
    """Who talks, by which rules. `begin` makes a task's environment; `sampling.seed` is the run's seed."""

    agent: ChatModel
    human: Human
    begin: Callable[[Task], CodeCollaboration]
    sampling: Sampling


def trajectory_id(task: Task, sample: int) -> str:
    return f"{task.id}-{sample}"


async def play(task: Task, sample: int, collaboration: Collaboration) -> Trajectory:
    """One dialogue from its task to its end.

    Every random choice comes from seed_for(run seed, trajectory id, turn), so that a dialogue is the same
    whatever runs beside it. Failures of either side end it with `ending` "failed" and `failure` {kind,
    message, side}. Raises UserError where no dialogue could work (a template that refuses the messages, a
    refused key).
    """
    key = trajectory_id(task, sample)
    seed = seed_for(collaboration.sampling.seed, key)
    environment = collaboration.begin(task)
    usage = {side: {"prompt_tokens": 0, "completion_tokens": 0} for side in ("agent", "human")}
    leaks, failure, side = 0, None, "agent"
    try:
        while not environment.over:
            side = "agent"
            turn_seed = seed_for(seed, environment.turns)
            completion, prompt_text = await _speak(collaboration, environment, turn_seed)
            _count(usage["agent"], completion)
            environment.step(completion, prompt_text)
            if not environment.over:
                side = "human"
                reply = await collaboration.human.reply(task, environment.observe(), seed_for(turn_seed, "human"))
                _count(usage["human"], reply)
                leaks += reply.leaks
                environment.hear(reply.text)
    except ModelError as error:
        if error.kind == "auth":
            raise UserError(f"the {side}'s server refuses the key or the model: {error}") from error
        failure = {"kind": error.kind, "message": str(error)[:1000], "side": side}
    except UserError:
        raise
    except Exception as error:  # one dialogue's surprise is its own record, never the end of the batch
        failure = {"kind": type(error).__name__, "message": str(error)[:1000], "side": side}
    return _record(task, key, environment, collaboration.agent, failure, {"usage": usage, "leaks": leaks})


async def _speak(
    collaboration: Collaboration, environment: CodeCollaboration, seed: int
) -> tuple[Completion, str | None]:
    """The agent's next message, and the prompt's text where the agent's chat format is known."""
    agent, sampling = collaboration.agent, replace(collaboration.sampling, seed=seed, n=1)
    if agent.chat is None:
        (completion,) = await agent.complete(environment.observe(), sampling)
        return completion, None
    parts = agent.chat.prompt(environment.observe())
    (completion,) = await agent.complete_parts(parts, sampling, agent.chat.fingerprint)
    return completion, parts_text(parts)


def _count(usage: dict[str, int], said: Any) -> None:
    usage["prompt_tokens"] += said.prompt_tokens
    usage["completion_tokens"] += said.completion_tokens


def _record(
    task: Task, key: str, environment: CodeCollaboration, agent: ChatModel, failure: dict | None, extra: dict
) -> Trajectory:
    history, parts = environment.dialogue, None
    if agent.chat is not None and environment.turns:
        last = max(index for index, message in enumerate(history) if message["role"] == "assistant")
        parts = agent.chat.dialogue(history[: last + 1])
    return Trajectory(
        task=task,
        dialogue_history=history,
        answer=environment.answer,
        reward=None,
        id=key,
        ending="failed" if failure else environment.ending,
        failure=failure,
        parts=parts,
        tokenizer=None if agent.chat is None else agent.chat.fingerprint,
        extra=extra,
    )


async def play_all(
    jobs: Iterable[tuple[Task, int]], collaboration: Collaboration, concurrency: int
) -> AsyncIterator[Trajectory]:
    """The dialogues of (task, sample) jobs in the order in which they end, `concurrency` of them under
    way."""
    async for trajectory in as_they_finish(jobs, lambda job: play(*job, collaboration), concurrency):
        yield trajectory


async def as_they_finish(
    jobs: Iterable[Job], work: Callable[[Job], Awaitable[Result]], concurrency: int
) -> AsyncIterator[Result]:
    """Results of work(job), in the order in which they come, at most `concurrency` jobs at once; jobs are
    taken from the iterable as places get free. An exception of a job goes up and cancels the others."""
    waiting, running = iter(jobs), set()
    try:
        while True:
            while len(running) < concurrency:
                job = next(waiting, _NO_JOB)
                if job is _NO_JOB:
                    break
                running.add(asyncio.ensure_future(work(job)))
            if not running:
                return
            finished, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in finished:
                yield task.result()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


_NO_JOB: Any = object()


def summarise(rows: Iterable[dict], seconds: float | None = None, fresh: int = 0) -> dict[str, Any]:
    """What trajectory rows (as on disk) amount to: endings, failures by side and kind, turns, tokens, leaks.

    `seconds` is what the last `fresh` rows took; tokens per second are theirs alone, rows of an earlier,
    interrupted process not counted.
    """
    endings, failures = Counter(), Counter()
    dialogues = turns = leaks = told = 0
    tokens, counts = Counter(), []
    for row in rows:
        dialogues += 1
        endings[row.get("ending") or "unknown"] += 1
        if row.get("failure"):
            failures[f"{row['failure'].get('side')}: {row['failure'].get('kind')}"] += 1
        said = sum(message["role"] == "assistant" for message in row["dialogue_history"])
        turns += said
        leaks += row.get("leaks", 0)
        told += row.get("leaks", 0) > 0
        made = {f"{side}_{name}": n for side, used in row.get("usage", {}).items() for name, n in used.items()}
        tokens.update(made)
        counts.append((made.get("agent_completion_tokens", 0), made.get("human_completion_tokens", 0)))
    summary: dict[str, Any] = {
        "dialogues": dialogues,
        "endings": dict(sorted(endings.items())),
        "failures": dict(sorted(failures.items())),
        "turns": turns,
        "turns_per_dialogue": round(turns / dialogues, 2) if dialogues else 0.0,
        "simulator_leaks": leaks,
        "dialogues_with_leaks": told,
        "tokens": dict(sorted(tokens.items())),
    }
    if seconds and fresh:
        agent, human = (sum(column) for column in zip(*counts[-fresh:], strict=True))
        summary |= {
            "seconds": round(seconds, 1),
            "dialogues_per_second": round(fresh / seconds, 2),
            "agent_tokens_per_second": round(agent / seconds, 1),
            "human_tokens_per_second": round(human / seconds, 1),
        }
    return summary
