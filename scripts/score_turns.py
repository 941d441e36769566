"""The credit of every turn of graded dialogues, by a critic, as `turn_credit` in their rows.

    python scripts/score_turns.py --model_id critic --input_path graded.jsonl --output_path credited.jsonl

train_policy_gradient.py --turn_weight takes it. A killed run is continued by the same command.
"""

from __future__ import annotations

from typing import Annotated

from sweet_rl.cli import prefix, run
from sweet_rl.credit.critics import CriticSettings

NOT_HERE = ("hostname", "judge_prompt_path", "api_key_variable", "concurrency", "seed", "reply")  # of judges and humans


def main(
    critic: Annotated[CriticSettings, prefix("", **dict.fromkeys(NOT_HERE))],
    input_path: str,
    output_path: str,
    limit: int | None = None,
    overwrite: bool = False,
) -> None:
    """Score the turns that were taken. A critic that takes the human's reply (belief_gain) takes that of the dialogue.

    Args:
        input_path: trajectories.
        output_path: the same rows with `turn_credit`, a number for each message of the agent.
        limit: number of dialogues that are read; default: all.
        overwrite: replace an output of other settings.
    """
    from sweet_rl.credit.taken_turns import score_turns_file

    score_turns_file(critic, input_path, output_path, limit, overwrite)


if __name__ == "__main__":
    run(main)
