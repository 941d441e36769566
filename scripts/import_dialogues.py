"""Trajectories from a log of verifiers or inspect_ai, trajectories or pairs from rows of other trainers: TRL's
conversational preference, SFT and KTO rows, ShareGPT (docs/files.md).

python scripts/import_dialogues.py --input_path outputs/NAME/traces.jsonl --output_path graded.jsonl
python scripts/import_dialogues.py --input_path logs/NAME.eval --output_path graded.jsonl
python scripts/import_dialogues.py --input_path preference.jsonl --tokenizer MODEL --output_path pairs.jsonl
"""

from __future__ import annotations

from typing import Annotated

from sweet_rl.integrations.import_rows import holds_rows, import_rows
from sweet_rl.integrations.logs import import_dialogues
from sweet_rl.runs.cli import prefix, run
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.step import StepSettings


def main(
    input_path: str,
    output_path: str,
    step: Annotated[StepSettings, prefix("", limit=None, shard=None)],
    tokenizer: str | None = None,
) -> None:
    """Import dialogues or pairs.

    Args:
        input_path: File traces.jsonl of verifiers, log of inspect_ai, or rows of TRL or ShareGPT (JSONL or parquet).
        output_path: Trajectories with their rewards, or pairs, JSONL.
        tokenizer: Model whose chat template lays out the texts of pairs.
    """
    if holds_rows(input_path):
        import_rows(input_path, output_path, step, tokenizer)
    elif tokenizer is not None:
        raise UserError(
            f"--tokenizer is for pairs, rows with 'chosen' in .jsonl, .json or .parquet; {input_path} has none."
        )
    else:
        import_dialogues(input_path, output_path, step)


if __name__ == "__main__":
    run(main)
