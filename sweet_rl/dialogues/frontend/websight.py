"""Frontend tasks from WebSight v0.2, made as in the released data set."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweet_rl.runs.cli import to_settings
from sweet_rl.runs.errors import UserError, first_line
from sweet_rl.runs.progress import progress_bar
from sweet_rl.runs.records import Task, content_id
from sweet_rl.runs.run import open_run
from sweet_rl.runs.step import StepSettings

HUB_NAME, CONFIGURATION = "HuggingFaceM4/WebSight", "v0.2"
SPLITS = {"train": (0, 10_000), "test": (10_000, 20_000)}  # rows of the hub's split `train`
DESCRIPTION, PAGE = "llm_generated_idea", "text"
_UNSPLASH = re.compile(r"(?:https?:)?//source\.unsplash\.com/random/(\d+)x(\d+)(?:/?\?[^\s\"'<>)]*)?", re.IGNORECASE)


@dataclass(frozen=True)
class TaskCounts:
    """How many tasks are made.

    Attributes:
        num_train: Number of training tasks, from the first of the training rows on (0: none).
        num_test: Number of test tasks, from the first of the test rows on (0: none).
    """

    num_train: int = 10_000
    num_test: int = 10_000

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 <= value <= 10_000:
                raise UserError(f"--{name} is {value}; it must be at least 0 and at most 10000.")


def prepare(counts: TaskCounts, output_dir: str, input_path: str | None, step: StepSettings) -> None:
    """Write train.jsonl and test.jsonl into a folder, from the hub or from a copy (`stream_rows`).

    A killed run continues with the same call at its next row.
    """
    source = "a local copy" if input_path else f"{HUB_NAME} {CONFIGURATION}"
    for split, count in {"train": counts.num_train, "test": counts.num_test}.items():
        if not count:
            continue
        first = SPLITS[split][0]
        settings = to_settings(source=source, first_row=first, rows=count)
        with open_run(Path(output_dir) / f"{split}.jsonl", settings, [input_path], step.overwrite) as run:
            if run.finished:
                run.show()
                continue
            done = len(run.done)
            if done < count:
                rows = stream_rows(input_path, first + done, first + count)
                for number, row in progress_bar(rows, total=count, initial=done, desc=split, unit=" rows"):
                    run.write(task_of(row, number).to_dict())
            run.finish({"tasks": len(run.done)})


def with_fixed_pictures(page: str) -> str:
    """The page with each random picture of Unsplash replaced by a fixed picture of the same size."""
    return _UNSPLASH.sub(r"https://picsum.photos/id/48/\1/\2", page)


def task_of(row: dict[str, Any], number: int) -> Task:
    """A WebSight row as a task; `number` is that of the row."""
    description, page = row[DESCRIPTION], with_fixed_pictures(row[PAGE])
    key = f"{content_id([description, page, {}])}-{number}"  # two rows may be equal
    return Task(description, page, id=key, extra={"websight_row": number})


def stream_rows(source: str | None, start: int, stop: int) -> Iterator[tuple[int, dict]]:
    """(number, row) for the rows `start` to `stop` (exclusive) of WebSight; its pictures are not read.

    The source is a copy of WebSight (.parquet or .jsonl file, or folder of .parquet files); None is the hub.

    Raises:
        UserError: No such source, or too few rows.
    """
    import datasets

    number = start
    try:
        if source is None:
            rows = datasets.load_dataset(HUB_NAME, CONFIGURATION, split="train", streaming=True)
        else:
            kind = "json" if source.endswith((".jsonl", ".json")) else "parquet"
            files = [source] if Path(source).is_file() else sorted(map(str, Path(source).glob("*.parquet")))
            rows = datasets.load_dataset(kind, data_files={"train": files}, split="train", streaming=True)
        for row in rows.select_columns([DESCRIPTION, PAGE]).skip(start).take(stop - start):
            yield number, row
            number += 1
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise UserError(
            f"{source or HUB_NAME} cannot be read: {first_line(error)}. It must be {HUB_NAME}, configuration "
            f"{CONFIGURATION}, with {DESCRIPTION} and {PAGE}. Without a network, give a copy with --input_path."
        ) from error
    if number < stop:
        raise UserError(f"{source or HUB_NAME} has no row {number}; rows {start} to {stop - 1} were asked for.")
