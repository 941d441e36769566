"""One step of the pipeline: its settings, the part of the work that a process does, and many items at the same time."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, TypeVar

from sweet_rl.runs.cli import UNRECORDED
from sweet_rl.runs.errors import ItemError, UserError
from sweet_rl.runs.progress import progress_bar
from sweet_rl.runs.run import Run

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class StepSettings:
    """Which part of its input a step reads, and whether it replaces an older output.

    A script without shards leaves the flag out: `Annotated[StepSettings, prefix("", shard=None)]`.

    Attributes:
        limit: Number of records that are read; all by default.
        shard: Part of the work, i/n: the i-th of n parts. The parts' outputs, one after the other, are the whole.
        overwrite: Replace an output of other settings.
    """

    limit: int | None = None
    shard: str | None = None
    overwrite: Annotated[bool, UNRECORDED] = False


def shard_of(items: Sequence[Item], shard: str | None) -> Sequence[Item]:
    """One of n contiguous parts of `items`, whose sizes differ by at most one.

    Args:
        items: All of the work.
        shard: Text i/n with i from 1 to n; None for everything.

    Raises:
        UserError: The text is not i/n.
    """
    if shard is None:
        return items
    numbers = re.fullmatch(r"(\d+)/(\d+)", shard)
    number, count = map(int, numbers.groups()) if numbers else (0, 0)
    if not 1 <= number <= count:
        raise UserError(f"--shard is {shard!r}; it must be i/n with i from 1 to n, for example 1/4, 2/4, 3/4 and 4/4.")
    return items[len(items) * (number - 1) // count : len(items) * number // count]


async def write_results(
    run: Run,
    items: Iterable[Item],
    work: Callable[[Item], Awaitable[Sequence[dict]]],
    concurrency: int,
    total: int | None = None,
    unit: str = "item",
    size: Callable[[Item], int] = lambda item: 1,
) -> None:
    """Work on many items at the same time, and write the records of each item as soon as it is done.

    Args:
        run: The open output, to which the records are appended.
        items: Items that the output lacks, read lazily.
        work: Returns the records of one item.
        concurrency: Largest number of items in progress.
        total: Number of records with those that were written before, for the progress bar.
        unit: Name of a record, in the progress bar and in messages.
        size: Returns the number of records of an item.

    Raises:
        UserError: Some items failed (`ItemError`), once all others are written; or at once if every item would fail.
    """
    failures: list[tuple[ItemError, int]] = []

    async def attempt(item: Item) -> Sequence[dict]:
        try:
            return await work(item)
        except ItemError as error:
            if error.fatal:
                raise UserError(f"{error.fatal}: {error}") from error
            failures.append((error, size(item)))
            return []

    with progress_bar(total=total, initial=len(run.done), desc=f"{unit}s", unit=unit) as bar:
        async for records in as_they_finish(items, attempt, concurrency):
            for record in records:
                run.write(record)
                bar.update()
    if failures:
        kinds = Counter[str]()
        for error, count in failures:
            kinds[error.kind] += count
        counts = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
        others = f"; the others are in {run.path}" if run.done else ""
        raise UserError(
            f"{kinds.total()} of the {unit}s failed ({counts}; the first: {failures[0][0]}){others}. "
            "Run the same command again to do them."
        )


async def as_they_finish(
    items: Iterable[Item], work: Callable[[Item], Awaitable[Result]], concurrency: int
) -> AsyncIterator[Result]:
    """Yield the results of work(item) as they finish, at most `concurrency` at the same time.

    An item is taken from the iterable when a place is free. An exception of an item is raised here and cancels the
    others.
    """
    waiting = iter(items)
    running: list[asyncio.Future[Result]] = []
    try:
        while True:
            running += [asyncio.ensure_future(work(item)) for item in islice(waiting, concurrency - len(running))]
            if not running:
                return
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            finished = [task for task in running if task.done()]
            running = [task for task in running if not task.done()]
            for task in finished:
                yield task.result()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
