"""Tasks of the small world of pages: a vague wish for a website, and the page that the client has in mind.

    python -m lab.pages.make_page_tasks --num_train 200 --num_test 200 --output_dir runs/pages/tasks

Writes train.jsonl and test.jsonl; the two share no page.
"""

from __future__ import annotations

from lab.pages.page_tasks import make_page_tasks
from sweet_rl.dialogues.mini.task_files import TaskFiles, write_task_files
from sweet_rl.runs.cli import run


def main(files: TaskFiles) -> None:
    """Make the tasks."""
    write_task_files(files, make_page_tasks)


if __name__ == "__main__":
    run(main)
