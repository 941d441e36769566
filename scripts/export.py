"""Rows for TRL and other trainers: the texts of pairs, the messages of dialogues (docs/files.md).

python scripts/export.py --input_path turn_pairs.jsonl --tokenizer MODEL --output_path preference.jsonl
python scripts/export.py --input_path credited.jsonl --output_path messages.jsonl
"""

from __future__ import annotations

from typing import Annotated

from sweet_rl.integrations.export import export_file
from sweet_rl.runs.cli import prefix, run
from sweet_rl.runs.step import StepSettings


def main(
    input_path: str,
    output_path: str,
    step: Annotated[StepSettings, prefix("", shard=None)],
    tokenizer: str | None = None,
) -> None:
    """Export records.

    Args:
        input_path: Pairs or trajectories, JSONL.
        output_path: The rows, JSONL: prompt, chosen and rejected of pairs; messages, reward and turn credit of
            trajectories.
        tokenizer: Model that is trained on the pairs. Pairs of which TRL makes other tokens are counted, and a BOS that
            its tokenizer adds is left out of the prompts.
    """
    export_file(input_path, output_path, step, tokenizer)


if __name__ == "__main__":
    run(main)
