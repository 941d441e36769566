"""Make a tiny agent of the mini tasks by imitation, from nothing or from another tiny agent.

    python -m lab.mini_agents.make_mini_agent --save_path runs/mini_agent
    python -m lab.mini_agents.make_mini_agent --save_path runs/mini_hard_agent --world hard --layers 4
    python -m lab.mini_agents.make_mini_agent --save_path runs/taught_10/agent --informed_share 0.1 --num_steps 2400

Takes about an hour on one core, half of it with --bf16 on a core that is fast in bfloat16. Killed, the same command
continues from its last checkpoint.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal

from lab.mini_agents.imitation import HABITS, INFORMED_SHARE, ImitationSettings
from sweet_rl.runs.cli import run, to_settings
from sweet_rl.runs.errors import UserError


def main(
    imitation: ImitationSettings,
    save_path: str,
    world: Literal["quick", "hard"] = "quick",
    habits: Literal["bad", "better"] = "bad",
    layers: int = 3,
    width: int = 128,
    pretrain: str | None = None,
    informed_share: float = INFORMED_SHARE,
    overwrite: bool = False,
) -> None:
    """Train the tiny agent.

    Args:
        save_path: Folder of the model; `--agent_model save_path` plays it.
        world: World of the functions, as in make_mini_tasks.py.
        habits: Habits of the imitated agent: bad, or better (asks on purpose more often).
        layers: Number of layers of the transformer.
        width: Width of its hidden state.
        pretrain: A tiny agent to start from, instead of random weights; its tokenizer and shape are kept.
        informed_share: Share of the dialogues before which the solution stands, as before a critic's.
        overwrite: Replace an existing model.
    """
    from lab.mini_agents.pretraining import LESSONS, load_agent, make_agent, new_agent
    from sweet_rl.models.weights import model_input

    if not 0 <= informed_share <= 1:
        raise UserError(f"--informed_share is {informed_share}; it must be from 0 to 1.")
    lessons = LESSONS[world]
    if pretrain is None:
        agent = partial(new_agent, lessons, imitation, layers, width)
    else:
        agent = partial(load_agent, pretrain, imitation)
    # The tokenizer is made without these changes, so that it is the same for every agent of a world.
    stream = partial(lessons.stream, informed_share=informed_share)
    if habits == "better":
        stream = partial(stream, own=HABITS[world][habits])
    lessons = replace(lessons, stream=stream)
    shape = {"layers": layers, "width": width}
    inputs = [model_input(pretrain)] if pretrain else []
    recorded = to_settings(imitation, world=world, habits=habits, informed_share=informed_share, **shape)
    make_agent(save_path, agent, lessons, imitation, recorded, inputs, overwrite)


if __name__ == "__main__":
    run(main)
