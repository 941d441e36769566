"""Tasks of the embedded default: small functions with hidden rules and ten unit tests, or small web pages.

    python scripts/make_mini_tasks.py --num_train 600 --num_test 400 --output_dir runs/mini/tasks
    python scripts/make_mini_tasks.py --task_type html --num_train 250 --num_test 200 --output_dir runs/mini-html/tasks
    python scripts/make_mini_tasks.py --seed 1 --output_dir runs/mini/validation \
        --apart_from runs/mini/tasks/train.jsonl,runs/mini/tasks/test.jsonl

Writes train.jsonl and test.jsonl; the two share no solution or page. The test tasks have another seed than
the training tasks, so that more training tasks do not change the test tasks.
"""

from functools import partial
from pathlib import Path
from typing import Literal

from lab.pages.page_tasks import make_page_tasks
from sweet_rl.cli import run
from sweet_rl.errors import UserError
from sweet_rl.mini.tasks import TEST_SEED, make_tasks
from sweet_rl.mini.worlds import WORLDS, check_world
from sweet_rl.progress import progress_bar
from sweet_rl.records import Task, content_id, read_records
from sweet_rl.runs.run import check_output, open_run


def main(
    output_dir: str,
    task_type: Literal["code", "html"] = "code",
    world: Literal["quick", "hard"] = "quick",
    num_train: int = 600,
    num_test: int = 400,
    seed: int = 0,
    apart_from: list[str] = (),
    overwrite: bool = False,
) -> None:
    """Make the tasks.

    Args:
        output_dir: folder for train.jsonl and test.jsonl.
        task_type: functions (code) or pages (html).
        world: of the functions: quick (three or four rules) or hard (four or five, two of them harder to find out).
        num_train: number of training tasks.
        num_test: number of test tasks.
        seed: of the generator.
        apart_from: files of tasks whose solutions or pages these tasks must not have.
        overwrite: replace outputs of other settings.
    """
    if min(num_train, num_test) < 1:
        raise UserError(f"--num_train is {num_train} and --num_test {num_test}; both must be at least 1.")
    check_world(world, task_type)
    paths = {name: str(Path(output_dir) / f"{name}.jsonl") for name in ("test", "train")}
    for path in paths.values():
        check_output(path, overwrite)
    make = {"code": partial(make_tasks, world=WORLDS[world]), "html": make_page_tasks}[task_type]
    known = {task.ground_truth for path in apart_from for task in read_records(path, Task)}
    test = make(num_test, TEST_SEED + seed, exclude=known)
    train = make(num_train, seed, exclude=known | {task["ground_truth"] for task in test})
    for name, tasks in {"test": test, "train": train}.items():
        path = paths[name]
        settings = {"num_tasks": len(tasks), "num_test": num_test, "split": name, "seed": seed, "task_type": task_type}
        settings |= {"world": world} if task_type == "code" else {}
        with open_run(path, settings, apart_from, overwrite) as output:
            if output.complete:
                print(f"{path}: already complete")
                continue
            found = progress_bar(tasks, desc=f"{name} tasks")
            output.write_missing({"id": content_id(task), **task} for task in found)
            output.finish({"tasks": len(tasks)})
            print(f"{path}: {len(tasks)} tasks")


if __name__ == "__main__":
    run(main)
