"""Trajectories from a log of verifiers or inspect_ai, for the other scripts and the viewer (docs/integrations.md).

python scripts/import_dialogues.py --input_path outputs/NAME/traces.jsonl --output_path graded.jsonl
python scripts/import_dialogues.py --input_path logs/NAME.eval --output_path graded.jsonl
"""

from __future__ import annotations

from typing import Annotated

from sweet_rl.integrations.logs import import_dialogues
from sweet_rl.runs.cli import prefix, run
from sweet_rl.runs.step import StepSettings


def main(input_path: str, output_path: str, step: Annotated[StepSettings, prefix("", limit=None, shard=None)]) -> None:
    """Import dialogues.

    Args:
        input_path: File traces.jsonl of verifiers, or log of inspect_ai.
        output_path: Trajectories with their rewards, JSONL.
    """
    import_dialogues(input_path, output_path, step)


if __name__ == "__main__":
    run(main)
