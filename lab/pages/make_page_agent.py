"""Make the tiny agent that draws pages, by imitation, from nothing.

    python -m lab.pages.make_page_agent --save_path runs/page_agent --num_steps 1100

made lab/pages/agent. Killed, the same command continues from its last checkpoint.
"""

from __future__ import annotations

from functools import partial

from lab.mini_agents.pretraining import ImitationSettings, Lessons, make_agent, new_agent
from lab.pages.page_imitation import imitation_stream
from lab.pages.pages import fixed_texts
from sweet_rl.runs.cli import run, to_settings

LESSONS = Lessons(imitation_stream, whole=tuple(fixed_texts()))


def main(
    imitation: ImitationSettings, save_path: str, layers: int = 3, width: int = 128, overwrite: bool = False
) -> None:
    """Train the agent.

    Args:
        save_path: Folder of the model; `--agent_model save_path` plays it.
        layers: Number of layers of the transformer.
        width: Width of its hidden state.
        overwrite: Replace an existing model.
    """
    agent = partial(new_agent, LESSONS, imitation, layers, width)
    recorded = to_settings(imitation, layers=layers, width=width)
    make_agent(save_path, agent, LESSONS, imitation, recorded, overwrite=overwrite)


if __name__ == "__main__":
    run(main)
