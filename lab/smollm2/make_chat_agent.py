"""Let a pretrained chat model imitate the dialogues of a poor agent of the mini tasks.

    python -m lab.smollm2.make_chat_agent --save_path runs/smollm2/agent --bf16 --habits better \
        --pretrain HuggingFaceTB/SmolLM2-135M-Instruct --lr 2e-4 --batch_size 8 --num_steps 300 --checkpoint_every 50

Killed, the same command continues from its last checkpoint.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal

from lab.mini_agents.imitation import HABITS
from lab.mini_agents.pretraining import LESSONS, ImitationSettings, make_agent
from lab.smollm2.chat_agent import chat_agent
from sweet_rl.models.weights import model_input
from sweet_rl.runs.cli import run, to_settings


def main(
    imitation: ImitationSettings,
    save_path: str,
    pretrain: str,
    habits: Literal["bad", "better"] = "bad",
    overwrite: bool = False,
) -> None:
    """Train the chat model.

    Args:
        save_path: Folder of the model; `--agent_model save_path` plays it.
        pretrain: A chat model of the Llama family: a folder, or a name on the hub.
        habits: Habits of the imitated agent: bad, or better (asks on purpose more often).
        overwrite: Replace an existing model.
    """
    lessons = LESSONS["quick"]
    lessons = replace(lessons, stream=partial(lessons.stream, own=HABITS["quick"][habits]))
    recorded = to_settings(imitation, habits=habits)
    agent, inputs = partial(chat_agent, pretrain, imitation), [model_input(pretrain)]
    make_agent(save_path, agent, lessons, imitation, recorded, inputs, overwrite)


if __name__ == "__main__":
    run(main)
