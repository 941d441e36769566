"""An agent of the ciphered world: it asks at random, never twice, whatever stands in front.

    python -m lab.ciphered.make_agent --save_path runs/ciphered/agent0 --seed 0

Half of the dialogues that it imitates have a hint in front, of words that mean nothing. No cipher word is among them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial

from lab.ciphered.tasks import CIPHER, CLUES, TOPICS, draw_task, question, reply_to
from lab.mini_agents.imitation import ImitationSettings
from lab.mini_agents.pretraining import Lessons, make_agent, new_agent
from sweet_rl.method.privileged_information import hint_text
from sweet_rl.runs.cli import run, to_settings

FOREIGN = "mul tor ban sip dol ras nev gil hob yat lum cas".split()
NUM_TURNS = 8
DEFAULTS = ImitationSettings(num_steps=600, lr=3e-3, batch_size=32, checkpoint_every=200)


def lessons(seed: int) -> Iterator[tuple[str, list[dict]]]:
    """Dialogues as (hint or empty, messages). A clue names any topic: it says nothing here."""
    draw = random.Random(f"lessons {seed}")
    while True:
        row = draw_task(draw, draw.choice([2, 3]))
        hint = hint_text(" ".join(draw.sample(FOREIGN, len(row["needed"])))) if draw.random() < 0.5 else ""
        replies = draw.choice(["silent", "revealing", "clue"])
        asked: list[str] = []
        messages = [{"role": "user", "content": row["problem_description"]}]
        for topic in draw.sample(TOPICS, NUM_TURNS):
            asked.append(topic)
            messages.append({"role": "assistant", "content": question(topic)})
            reply = reply_to(row["needed"], asked, replies) if replies != "clue" else f"No, {draw.choice(CLUES)}."
            messages.append({"role": "user", "content": reply})
        yield hint, messages[:-1]


LESSONS = Lessons(lessons, vocab_size=420, whole=tuple(f" {w}" for w in [*TOPICS, *CIPHER, *CLUES, *FOREIGN, "done"]))


def main(
    save_path: str, imitation: ImitationSettings = DEFAULTS, width: int = 64, layers: int = 2, overwrite: bool = False
) -> None:
    """Train the agent.

    Args:
        save_path: Folder of the model.
        width: Width of its layers.
        layers: Number of layers.
        overwrite: Replace an existing model.
    """
    agent = partial(new_agent, LESSONS, imitation, layers, width)
    make_agent(
        save_path, agent, LESSONS, imitation, to_settings(imitation, width=width, layers=layers), overwrite=overwrite
    )


if __name__ == "__main__":
    run(main)
