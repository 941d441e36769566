"""One step of the pipeline, the same for every script: open or continue the output, do what is missing, finish.

A step is its settings, its items and the work on one item. One that calls a language model reads like this:

    def sample_file(settings: SampleSettings, input_path: str, output_path: str, step: StepSettings) -> dict:
        turns = shard_of(read_records(input_path, Turn, step.limit), step.shard)

        async def sample(run: Run) -> dict:
            missing = [turn for turn in turns if turn.id not in run.done]
            await write_results(run, missing, candidates_of, concurrency=64, total=len(turns), unit="turn")
            return {"turns": len(run.done)}

        output = open_run(output_path, to_settings(settings, step), [input_path], step.overwrite)
        return run_step(output, sample)

and one that only computes has `def pair(run: Run) -> dict` in place of the coroutine, with `run.write_missing(rows)`.
`open_run` refuses other settings, and the same command continues a step that was stopped.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from sweet_rl.runs.cli import UNRECORDED, print_summary
from sweet_rl.runs.errors import ItemError, NothingMade, UserError
from sweet_rl.runs.output import Output
from sweet_rl.runs.progress import progress_bar, shown_regularly
from sweet_rl.runs.run import Run

Opened = TypeVar("Opened", bound=Output)
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


def run_step(
    output: Opened,
    work: Callable[[Opened], dict | Coroutine[Any, Any, dict]],
    show: Callable[[dict[str, Any]], None] = print_summary,
    may_be_empty: bool = False,
) -> dict[str, Any]:
    """Do the work of a step unless its output is complete, finish the output, and show and return its summary.

    Args:
        output: The output as `open_run` or `directory_manifest` has opened it. It is closed at the end.
        work: Function or coroutine function that writes what the output lacks and returns the summary. If it raises,
            the output stays unfinished, and the same command continues it.
        show: Function that prints the summary.
        may_be_empty: Whether an output without records is finished too.

    Raises:
        NothingMade: The output has no records; its summary has been shown.
    """
    with output:
        if output.complete:
            print(f"{output.path}: already complete")
        else:
            made = work(output)
            summary = made if isinstance(made, dict) else asyncio.run(made)
            if isinstance(output, Run) and not output.done and not may_be_empty:
                show(summary)
                raise NothingMade(f"{output.path}: not a single record came out. The summary above says what was read.")
            output.finish(summary)
        summary = output.summary or {}
    show(summary)
    return summary


async def write_results(
    run: Run,
    items: Iterable[Item],
    work: Callable[[Item], Awaitable[Sequence[dict]]],
    concurrency: int,
    total: int | None = None,
    unit: str = "item",
    waiting: Callable[[], str] = str,
    size: Callable[[Item], int] = lambda item: 1,
) -> None:
    """Work on many items at the same time, and write the records of each item as soon as it is done.

    Args:
        run: The open output, to which the records are appended.
        items: Items that the output lacks. An item is taken from them when its work can begin.
        work: Coroutine function that returns the records of one item.
        concurrency: Largest number of items in progress.
        total: Number of records with those that were written before, for the progress bar.
        unit: Name of a record, in the progress bar and in messages.
        waiting: Function that returns what the work waits for; the progress bar shows it.
        size: Function that returns the number of records of an item.

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
        async with shown_regularly(lambda: bar.set_postfix_str(waiting())):
            async for records in as_they_finish(items, attempt, concurrency):
                for record in records:
                    run.write(record)
                    bar.update()
    if failures:
        kinds: Counter[str] = Counter()
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
    """Yield the results of work(item) in the order in which they finish, at most `concurrency` at the same time.

    An item is taken from the iterable when a place is free. An exception of an item is raised here and cancels the
    others.
    """
    waiting = iter(items)
    running: set[asyncio.Future[Result]] = set()
    finished: asyncio.Queue[asyncio.Future[Result]] = asyncio.Queue()

    def start() -> bool:
        for item in waiting:
            task = asyncio.ensure_future(work(item))
            running.add(task)
            task.add_done_callback(finished.put_nowait)
            return True
        return False

    try:
        while len(running) < concurrency and start():
            pass
        while running:
            task = await finished.get()
            running.discard(task)
            result = task.result()
            start()
            yield result
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
