"""Frontend tasks from WebSight v0.2: rows 0-9,999 to train, rows 10,000-19,999 to test.

    python scripts/prepare_websight.py --output_dir data/frontend_tasks

Reads HuggingFaceM4/WebSight from the hub row by row, without its pictures; --input_path reads a copy (.parquet,
.jsonl, or a folder of .parquet files). Pictures of source.unsplash.com become picsum.photos/id/48/W/H of the same size.
A run that was stopped goes on at its next row.
"""

from __future__ import annotations

from typing import Annotated

from sweet_rl.dialogues.frontend.websight import TaskCounts, prepare
from sweet_rl.runs.cli import prefix, run
from sweet_rl.runs.step import StepSettings


def main(
    output_dir: str,
    counts: TaskCounts,
    step: Annotated[StepSettings, prefix("", limit=None, shard=None)],
    input_path: str | None = None,
) -> None:
    """Write train.jsonl and test.jsonl.

    Args:
        output_dir: Folder of both files.
        input_path: Local copy that is read instead of the hub.
    """
    prepare(counts, output_dir, input_path, step)


if __name__ == "__main__":
    run(main)
