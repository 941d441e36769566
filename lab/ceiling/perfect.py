"""Perfect dialogues of the hard world: each question asks for what the agent can know of, and the answer is right.

The agent that is imitated knows the topics of each family. It asks for those and for what a reply mentions, in any
order, for a rule with two parts twice, and then answers. It never sees the solution.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from lab.mini_agents.imitation import Habits, imitation_dialogue
from lab.mini_agents.pretraining import LESSONS, Lessons
from sweet_rl.dialogues import ANSWER_MARKER
from sweet_rl.dialogues.mini.oracle import topic_of
from sweet_rl.dialogues.mini.tasks import describe, draw_rules, family_of
from sweet_rl.dialogues.mini.worlds import HARD

PERFECT = Habits(useful=1.0, repeat=0.0, early=0.0, finish=1.0, last=1.0)

Dialogue = tuple[str, list[dict]]


def is_perfect(task: dict, messages: Sequence[dict]) -> bool:
    """Return whether a dialogue asks only for what it can know of, and ends with the solution."""
    mini = task["mini"]
    known = set(family_of(mini).topics)
    *asked, answer = [message["content"] for message in messages if message["role"] == "assistant"]
    for question in asked:
        topic = topic_of(question, HARD)
        if topic not in known:
            return False
        known.add(mini["mentions"].get(topic, topic))
    return answer == f"{ANSWER_MARKER}\n{task['ground_truth']}"


def perfect_dialogues(number: int, seed: int, exclude: Collection[str] = ()) -> list[Dialogue]:
    """Return (empty hint, messages) of dialogues on distinct tasks, none of which has a solution in `exclude`."""
    rng = random.Random(f"perfect {seed}")
    seen, dialogues = set(exclude), []
    while len(dialogues) < number:
        family = rng.choice(HARD.families)
        task = describe(family, draw_rules(family, rng, HARD), rng, HARD)
        messages = imitation_dialogue(task, False, rng, PERFECT)
        if task["ground_truth"] not in seen and is_perfect(task, messages):
            seen.add(task["ground_truth"])
            dialogues.append(("", messages))
    return dialogues


def lessons_on(number: int, exclude: Collection[str]) -> Lessons:
    """Return lessons of `number` dialogues, in another order in each epoch.

    A seed below 0 gives 1,024 dialogues of its own, for the held-out loss.
    """
    dialogues = perfect_dialogues(number, 0, exclude)

    def stream(seed: int) -> Iterator[Dialogue]:
        own = perfect_dialogues(1024, seed, exclude) if seed < 0 else dialogues
        rng = random.Random(f"order {seed}")
        while True:
            yield from rng.sample(own, len(own))

    return replace(LESSONS["hard"], stream=stream)
