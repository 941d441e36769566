"""Files of generated tasks: train.jsonl and test.jsonl, which share no reference solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweet_rl.dialogues.mini.tasks import TEST_SEED
from sweet_rl.runs.cli import to_settings
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.progress import progress_bar
from sweet_rl.runs.records import Task, content_id, read_records
from sweet_rl.runs.run import check_output, open_run


@dataclass(frozen=True, kw_only=True)
class TaskFiles:
    """Which tasks are made, and where they are written.

    Attributes:
        output_dir: Folder for train.jsonl and test.jsonl.
        num_train: Number of training tasks.
        num_test: Number of test tasks.
        seed: Random seed of the generator.
        apart_from: Files of tasks whose solutions these tasks must not have.
        overwrite: Replace outputs of other settings.
    """

    output_dir: str
    num_train: int = 600
    num_test: int = 400
    seed: int = 0
    apart_from: tuple[str, ...] = ()
    overwrite: bool = False

    def __post_init__(self) -> None:
        if min(self.num_train, self.num_test) < 1:
            raise UserError(f"--num_train is {self.num_train} and --num_test {self.num_test}; both must be at least 1.")


def write_task_files(files: TaskFiles, make: Callable[..., list[dict]], **recorded: Any) -> None:
    """Write the tasks that `make(num_tasks, seed, exclude=solutions)` returns, with `recorded` in their manifests.

    The test tasks have a seed of their own, so that more training tasks do not change them.
    """
    paths = {name: str(Path(files.output_dir) / f"{name}.jsonl") for name in ("test", "train")}
    for path in paths.values():
        check_output(path, files.overwrite)
    known = {task.ground_truth for path in files.apart_from for task in read_records(path, Task)}
    test = make(files.num_test, TEST_SEED + files.seed, exclude=known)
    train = make(files.num_train, files.seed, exclude=known | {task["ground_truth"] for task in test})
    for name, tasks in {"test": test, "train": train}.items():
        settings = to_settings(num_tasks=len(tasks), num_test=files.num_test, split=name, seed=files.seed, **recorded)
        with open_run(paths[name], settings, files.apart_from, files.overwrite) as run:
            if run.finished:
                run.show()
                continue
            run.write_missing({"id": content_id(task), **task} for task in progress_bar(tasks, desc=f"{name} tasks"))
            run.finish({"tasks": len(tasks)})
