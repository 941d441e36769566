"""Join the outputs of `--shard 1/n` to `n/n` of one command into the output that the command writes without shards.

python scripts/gather_shards.py --shards dialogues.1.jsonl,dialogues.2.jsonl --output_path dialogues.jsonl
"""

from __future__ import annotations

from typing import Annotated

from sweet_rl.runs.cli import prefix, run
from sweet_rl.runs.shards import gather
from sweet_rl.runs.step import StepSettings


def main(
    shards: list[str], output_path: str, step: Annotated[StepSettings, prefix("", limit=None, shard=None)]
) -> None:
    """Join shards.

    Args:
        shards: Outputs of all shards, separated by commas.
        output_path: The joined records.
    """
    gather(shards, output_path, step.overwrite)


if __name__ == "__main__":
    run(main)
