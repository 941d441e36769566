"""The credit of every turn of graded dialogues, by a critic, as `turn_credit` in their rows.

    python scripts/score_turns.py --model_id critic --input_path graded.jsonl --output_path credited.jsonl

A killed run is continued by the same command.
"""

from __future__ import annotations

from typing import Annotated

from sweet_rl.method.critics import CriticFlags
from sweet_rl.method.turn_credit import score_turns_file
from sweet_rl.runs.cli import prefix, run
from sweet_rl.runs.step import StepSettings


def main(
    critic: CriticFlags,
    input_path: str,
    output_path: str,
    step: Annotated[StepSettings, prefix("", shard=None)],
) -> None:
    """Score the turns that were taken.

    Args:
        input_path: Trajectories.
        output_path: The same rows with `turn_credit`, a number for each message of the agent.
    """
    score_turns_file(critic.chosen, input_path, output_path, step)


if __name__ == "__main__":
    run(main)
