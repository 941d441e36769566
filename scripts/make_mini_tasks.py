"""Tasks of the embedded default: small functions with hidden rules and ten unit tests.

    python scripts/make_mini_tasks.py --num_train 600 --num_test 400 --output_dir runs/mini/tasks

Writes train.jsonl and test.jsonl; the two share no solution. The test tasks have another seed than the training tasks,
so that more training tasks do not change the test tasks.
"""

from __future__ import annotations

from typing import Literal

from sweet_rl.dialogues.mini.tasks import TaskFiles, write_task_files
from sweet_rl.dialogues.mini.worlds import WORLDS
from sweet_rl.runs.cli import run


def main(files: TaskFiles, world: Literal["quick", "hard"] = "quick") -> None:
    """Make the tasks.

    Args:
        world: World of the functions: quick (three or four rules) or hard (four or five, two harder to find out).
    """
    write_task_files(files, WORLDS[world])


if __name__ == "__main__":
    run(main)
