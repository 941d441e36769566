"""Train an agent of the hard world on perfect dialogues.

    python -m lab.ceiling.imitate --save_path runs/1M --pretrain mini_hard --apart_from test.jsonl --num_steps 626
    python -m lab.ceiling.imitate --save_path runs/4M --width 256 --apart_from test.jsonl --num_steps 1878

Killed, the same command continues from its last checkpoint.
"""

from __future__ import annotations

from functools import partial

from lab.mini_agents.imitation import ImitationSettings
from sweet_rl.runs.cli import run, to_settings


def main(
    imitation: ImitationSettings,
    save_path: str,
    apart_from: tuple[str, ...],
    pretrain: str | None = None,
    layers: int = 4,
    width: int = 128,
    dialogues: int = 10_000,
    overwrite: bool = False,
) -> None:
    """Train the agent.

    Args:
        save_path: Folder of the model; `--agent_model save_path` plays it.
        apart_from: Files of tasks whose solutions are in no dialogue.
        pretrain: A tiny agent to start from, instead of random weights; its shape is kept.
        layers: Number of layers of a new agent.
        width: Width of a new agent's hidden state.
        dialogues: Number of perfect dialogues.
        overwrite: Replace an existing model.
    """
    from lab.ceiling.perfect import lessons_on
    from lab.mini_agents.pretraining import LESSONS, load_agent, make_agent, new_agent
    from sweet_rl.models.weights import model_input
    from sweet_rl.runs.records import Task, read_records

    solutions = {task.ground_truth for path in apart_from for task in read_records(path, Task)}
    if pretrain is None:
        agent = partial(new_agent, LESSONS["hard"], imitation, layers, width)
    else:
        agent = partial(load_agent, pretrain, imitation)
    recorded = to_settings(imitation, layers=layers, width=width, dialogues=dialogues)
    inputs = [*apart_from, model_input(pretrain) if pretrain else None]
    make_agent(save_path, agent, lessons_on(dialogues, solutions), imitation, recorded, inputs, overwrite)


if __name__ == "__main__":
    run(main)
