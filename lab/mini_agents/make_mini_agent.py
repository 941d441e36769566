"""Make a tiny agent of the mini tasks by imitation, from nothing or from another tiny agent.

    python -m lab.mini_agents.make_mini_agent --save_path runs/mini_agent
    python -m lab.mini_agents.make_mini_agent --save_path runs/mini_hard_agent --world hard --layers 4

Takes about an hour on one core, half of it with --bf16 on a core that is fast in bfloat16. Killed, the same command
continues from its last checkpoint.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal

from lab.mini_agents.imitation import HABITS, ImitationSettings
from sweet_rl.cli import run, to_settings


def main(
    imitation: ImitationSettings,
    save_path: str,
    world: Literal["quick", "hard"] = "quick",
    habits: Literal["bad", "better"] = "bad",
    layers: int = 3,
    width: int = 128,
    pretrain: str | None = None,
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
        overwrite: Replace an existing model.
    """
    from lab.mini_agents.pretraining import LESSONS, load_agent, make_agent, new_agent

    lessons = LESSONS[world]
    if pretrain is None:
        agent = partial(new_agent, lessons, imitation, layers, width)
    else:
        agent = partial(load_agent, pretrain, imitation)
    if habits == "better":
        lessons = replace(lessons, stream=partial(lessons.stream, own=HABITS[world][habits]))
    recorded = to_settings(imitation, world=world, habits=habits, layers=layers, width=width)
    make_agent(save_path, agent, lessons, imitation, recorded, [pretrain] if pretrain else [], overwrite)


if __name__ == "__main__":
    run(main)
