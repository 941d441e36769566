"""Hint distillation: an agent that plays with the reference solution before it, and dialogues without that sight.

    python -m lab.controls.informed agent --model_id mini --save_path runs/informed
    python -m lab.controls.informed forget --input_path graded.jsonl --output_path forgetful.jsonl

`DOMAIN` is the domain of the mini tasks in which the agent sees the solution, as the critic does. The mini agents'
chat template knows no text outside of messages; `agent` copies an agent with one that does.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import fire
from transformers import AutoTokenizer

from lab.ciphered.tasks import write_rows
from lab.mini_agents.pretraining import CHAT_TEMPLATE
from sweet_rl.dialogues import AnswerEnvironment
from sweet_rl.dialogues.mini.human import MINI
from sweet_rl.method.privileged_information import hint_text
from sweet_rl.models.weights import model_path
from sweet_rl.runs.records import Message, Trajectory, read_records

FOR_ONE = "{% for message in messages %}"
PRIVILEGED_TEMPLATE = CHAT_TEMPLATE.replace(
    FOR_ONE,
    "{% if messages[0]['role'] == 'system' %}{{ messages[0]['content'] }}{% set messages = messages[1:] %}{% endif %}"
    + FOR_ONE,
)


class InformedEnvironment(AnswerEnvironment):
    """The agent sees c before the dialogue; the human, the grader and the record of the dialogue are as ever."""

    def observe(self) -> list[Message]:
        return [{"role": "system", "content": hint_text(self.task.ground_truth)}, *self.dialogue]


DOMAIN = replace(MINI, name="mini, informed", environment=InformedEnvironment)


def agent(model_id: str, save_path: str) -> None:
    """Copy an agent with a template that writes a system message's text before the dialogue, as c stands there."""
    shutil.copytree(model_path(model_id), save_path, dirs_exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(save_path)
    tokenizer.chat_template = PRIVILEGED_TEMPLATE
    tokenizer.save_pretrained(save_path)


def forgetful(trajectory: Trajectory) -> Trajectory:
    """The dialogue as it was said, without the prompts and tokens, in which the solution stands."""
    said = [{"role": one["role"], "content": one["content"]} for one in trajectory.dialogue_history]
    return replace(trajectory, dialogue_history=said, parts=None, tokenizer=None)


def forget(input_path: str, output_path: str) -> None:
    """Write the dialogues of an informed agent as dialogues of one that did not see the solution."""
    rows = [forgetful(one).to_dict() for one in read_records(input_path, Trajectory)]
    write_rows(output_path, rows)
    print(f"{Path(output_path)}: {len(rows)} dialogues")


if __name__ == "__main__":
    fire.Fire({"agent": agent, "forget": forget})
