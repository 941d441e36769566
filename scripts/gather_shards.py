"""Join the outputs of `--shard 1/n` to `n/n` of one command into the output that the command writes without shards.

python scripts/gather_shards.py --shards dialogues.1.jsonl,dialogues.2.jsonl --output_path dialogues.jsonl
"""

from __future__ import annotations

from sweet_rl.cli import run
from sweet_rl.runs.shards import gather


def main(shards: list[str], output_path: str, overwrite: bool = False) -> None:
    """Join shards.

    Args:
        shards: Outputs of all shards, separated by commas.
        output_path: Joined records, JSONL.
        overwrite: Replace an output of other shards.
    """
    print(f"{output_path}: {gather(shards, output_path, overwrite)} records of {len(shards)} shards")


if __name__ == "__main__":
    run(main)
