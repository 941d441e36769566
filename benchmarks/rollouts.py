"""Dialogues per second, compared with lock-step batching, on a server with realistic waits.

    python benchmarks/rollouts.py          # about 8 minutes, most of them in lock-step

A local server answers after log-normal waits (median 0.3 s, p99 4 s). Dialogues have 2 to 10 turns; agent and human are
on that server. The same dialogues, with the same waits and number of connections, also run in lock-step: the dialogues
of a batch take their turns together, and the next batch begins when the last dialogue of the batch has ended. The upper
bound is the speed at which all connections are busy all the time.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]

from dialogue_server import MODEL, serving, waited  # noqa: E402

from sweet_rl.dialogues.play import DialogueSetup, play, play_all  # noqa: E402
from sweet_rl.dialogues.task_types import load_domain  # noqa: E402
from sweet_rl.models.base import Sampling  # noqa: E402
from sweet_rl.models.openai_server import OpenAIServer  # noqa: E402
from sweet_rl.runs.cli import run  # noqa: E402
from sweet_rl.runs.records import Task  # noqa: E402

CODE = load_domain("code")


class InStep:
    """A model whose replies are held back until every dialogue of the batch has its own."""

    def __init__(self, model: OpenAIServer, dialogues: int) -> None:
        self.model, self.chat = model, None
        self._talking, self._here, self._round = dialogues, 0, asyncio.Event()

    async def complete(self, messages, sampling):
        replies = await self.model.complete(messages, sampling)
        self._here += 1
        together = self._round
        self._go_on()
        await together.wait()
        return replies

    def ended(self) -> None:
        self._talking -= 1
        self._go_on()

    def _go_on(self) -> None:
        if self._here and self._here == self._talking:
            self._here, together = 0, self._round
            self._round = asyncio.Event()
            together.set()


def collaboration(agent, human) -> DialogueSetup:
    player = CODE.make_human("llm", human, CODE.human_template(), max_chars=400)
    begin = CODE.begin(CODE.agent_template(), 10)
    return DialogueSetup(agent, player, begin, Sampling())


async def at_its_own_pace(model: OpenAIServer, tasks: list[Task], connections: int) -> int:
    jobs = [(task, 0) for task in tasks]
    return sum([t.ending == "answered" async for t in play_all(jobs, collaboration(model, model), connections)])


async def lock_step(model: OpenAIServer, tasks: list[Task], connections: int) -> int:
    answered = 0
    for first in range(0, len(tasks), connections):
        batch = tasks[first : first + connections]
        together = InStep(model, len(batch))
        both = collaboration(together, together)

        async def one(task: Task, both: DialogueSetup = both, together: InStep = together) -> bool:
            trajectory = await play(task, 0, both)
            together.ended()
            return trajectory.ending == "answered"

        answered += sum(await asyncio.gather(*map(one, batch)))
    return answered


async def measure(way, url: str, tasks: list[Task], connections: int) -> float:
    model = OpenAIServer(MODEL, [url])
    await model.check()
    start = time.monotonic()
    answered = await way(model, tasks, connections)
    seconds = time.monotonic() - start
    await model.close()
    if answered != len(tasks):
        raise RuntimeError(f"{answered} of {len(tasks)} dialogues ended as they should")
    return seconds


def main(dialogues: int = 192, connections: int = 16, median: float = 0.3, p99: float = 4.0) -> None:
    """Measures both ways.

    Args:
        dialogues: of 2 to 10 turns each.
        connections: dialogues in progress at the same time, each with one call at a time.
        median: of the server's waits in seconds.
        p99: 99th percentile of the waits.
    """
    tasks = [Task(f"Write function number {number}: def f(x)", "def f(x): return x") for number in range(dialogues)]
    with serving(median, p99) as url:
        own = asyncio.run(measure(at_its_own_pace, url, tasks, connections))
        work = waited(url)
        step = asyncio.run(measure(lock_step, url, tasks, connections))
        again = waited(url)
    bound = work / connections
    print(f"waits: {work:.0f} s in one way, {again:.0f} s in the other")
    print(f"lock-step: {dialogues / step:.2f} dialogues/s ({step:.1f} s)")
    print(f"each at its own pace: {dialogues / own:.2f} dialogues/s ({own:.1f} s)")
    print(f"share of the bound of {connections} connections ({dialogues / bound:.2f} dialogues/s): {bound / own:.1%}")
    print(f"ratio: {step / own:.2f}")


if __name__ == "__main__":
    run(main)
