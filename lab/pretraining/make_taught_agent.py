"""Make a tiny agent that saw the solution before only a share of the dialogues that it imitates.

    python -m lab.pretraining.make_taught_agent --save_path runs/taught_10/agent --informed_share 0.1 \
        --num_steps 2400 --bf16

Killed, the same command continues from its last checkpoint.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lab.mini_agents.pretraining import LESSONS, ImitationSettings, make_agent, new_agent
from sweet_rl.cli import run, to_settings
from sweet_rl.errors import UserError


def main(imitation: ImitationSettings, save_path: str, informed_share: float, overwrite: bool = False) -> None:
    """Train the agent.

    Args:
        save_path: Folder of the model; `--agent_model save_path` plays it.
        informed_share: Share of the dialogues before which the solution stands, as before a critic's; the imitated
            agent uses it. The packaged agent was made with 0.4.
        overwrite: Replace an existing model.
    """
    if not 0 <= informed_share <= 1:
        raise UserError(f"--informed_share is {informed_share}; it must be from 0 to 1.")
    quick = LESSONS["quick"]
    lessons = replace(quick, stream=partial(quick.stream, informed_share=informed_share))
    agent = partial(new_agent, quick, imitation)  # because the tokenizer is the same for every share
    recorded = to_settings(imitation, informed_share=informed_share)
    make_agent(save_path, agent, lessons, imitation, recorded, overwrite=overwrite)


if __name__ == "__main__":
    run(main)
