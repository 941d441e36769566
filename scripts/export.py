"""Rows for the trainers of others: TRL, ShareGPT (LLaMA-Factory, ms-swift), parquet and verl (docs/files.md).

    python scripts/export.py --input_path turn_pairs.jsonl --to trl --output_path preference.jsonl
    python scripts/export.py --input_path credited.jsonl --to verl --output_path train.parquet

`sweet-rl import` makes records of such rows.
"""

from __future__ import annotations

from typing import Annotated

from sweet_rl.integrations.export import To, export_file
from sweet_rl.runs.cli import prefix, run
from sweet_rl.runs.step import StepSettings


def main(
    input_path: str,
    to: To,
    output_path: str,
    step: Annotated[StepSettings, prefix("", shard=None)],
    tokenizer: str | None = None,
    task_type: str | None = None,
) -> None:
    """Export records.

    Args:
        input_path: Tasks, trajectories, candidates or pairs, JSONL.
        to: Format of the rows: trl (preference of pairs, prompt-completion of turns and candidates, prompts of tasks),
            sft (messages) or sharegpt, as JSONL; parquet or verl, as parquet.
        output_path: The rows, with rewards and turn credit as columns.
        tokenizer: Agent's model, whose chat template is compared with the texts of pairs; by default nothing is.
        task_type: Domain whose opening messages are the prompts of tasks, as for simulate_interactions.py; by default
            the prompts are the bare descriptions.
    """
    export_file(to, input_path, output_path, step, tokenizer, task_type)


if __name__ == "__main__":
    run(main)
