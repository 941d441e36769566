"""Frontend tasks from WebSight v0.2: rows 0-9,999 to train, rows 10,000-19,999 to test.

    python scripts/prepare_websight.py --output_dir data/frontend_tasks

Reads HuggingFaceM4/WebSight from the hub row by row, without its pictures; --input_path reads a copy (.parquet,
.jsonl, or a folder of .parquet files). Pictures of source.unsplash.com become picsum.photos/id/48/W/H of the same size.
A run that was stopped goes on at its next row.
"""

from __future__ import annotations

from pathlib import Path

from sweet_rl.cli import run
from sweet_rl.domains.frontend.websight import CONFIGURATION, HUB_NAME, SPLITS, stream_rows, task_of
from sweet_rl.errors import UserError
from sweet_rl.progress import progress_bar
from sweet_rl.runs.run import open_run


def main(
    output_dir: str,
    input_path: str | None = None,
    num_train: int = 10_000,
    num_test: int = 10_000,
    overwrite: bool = False,
) -> None:
    """Write train.jsonl and test.jsonl.

    Args:
        output_dir: Folder of both files.
        input_path: Local copy of the dataset; by default the hub's.
        num_train: Number of rows to train on, from the first one; 0 for none.
        num_test: Number of test rows, from the first one; 0 for none.
        overwrite: Replace the outputs.
    """
    for name, value in {"num_train": num_train, "num_test": num_test}.items():
        if not 0 <= value <= 10_000:
            raise UserError(f"--{name} is {value}; it must be at least 0 and at most 10000.")
    source = "a local copy" if input_path else f"{HUB_NAME} {CONFIGURATION}"
    for split, count in (("train", num_train), ("test", num_test)):
        if not count:
            continue
        first = SPLITS[split][0]
        path = Path(output_dir) / f"{split}.jsonl"
        settings = {"source": source, "first_row": first, "rows": count}
        inputs = [input_path] if input_path else []
        with open_run(path, settings, inputs, overwrite) as output:
            if output.complete:
                print(f"{path}: already complete")
                continue
            done = len(output.done)
            if done < count:
                rows = stream_rows(input_path, first + done, first + count)
                for number, row in progress_bar(rows, total=count, initial=done, desc=split, unit=" rows"):
                    output.write(task_of(row, number, source).to_dict())
            output.finish({"tasks": len(output.done)})
            print(f"{path}: {len(output.done)} tasks")


if __name__ == "__main__":
    run(main)
