"""Dialogues that the tiny agent learns to imitate: in good form, with bad questions.

The imitated agent asks mostly at random, repeats itself, and sometimes answers before it knows the rules; it writes the
rules that it was told into code without mistakes. In a share of the dialogues it sees the solution first, as the critic
will (informed dialogues). Then it nearly always asks about a rule of the solution that was not told yet, and answers
with the solution when all rules were told, as a large language model would. From these clear habits even a tiny model
learns to attend to the questions that were asked before.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import PositiveFloat, PositiveInt

from sweet_rl.dialogues import ANSWER_MARKER
from sweet_rl.dialogues.mini.human import answer
from sweet_rl.dialogues.mini.tasks import Rule, describe, draw_rule, draw_rules, family_of, rules_of, source
from sweet_rl.dialogues.mini.worlds import QUICK, TOPIC_BY_NAME, World, world_of
from sweet_rl.method.privileged_information import hint_text
from sweet_rl.runs.cli import UNRECORDED

MAX_TURNS = 10
INFORMED_SHARE = 0.4


@dataclass(frozen=True, kw_only=True)
class ImitationSettings:
    """How an agent is trained to imitate.

    Attributes:
        num_steps: Number of batches; the learning rate falls over the last quarter of them.
        batch_size: Number of dialogues per batch.
        lr: Learning rate at its peak.
        bf16: Matrix products in bfloat16: twice as fast on CPUs with AMX, five times slower on CPUs without bfloat16.
        seed: Random seed of weights and dialogues.
        checkpoint_every: Number of steps between checkpoints, each with the loss on held-out dialogues.
    """

    num_steps: PositiveInt = 3000
    batch_size: PositiveInt = 32
    lr: PositiveFloat = 3e-3
    bf16: bool = False
    seed: int = 0
    checkpoint_every: Annotated[PositiveInt, UNRECORDED] = 250


@dataclass(frozen=True)
class Habits:
    """How an imitated agent behaves, as probabilities per turn.

    Attributes:
        useful: Asks about a rule that it was not told yet.
        repeat: Asks again about something that it asked before; otherwise it asks about a random topic.
        early: Answers although rules are missing, from its second turn on.
        finish: Answers when all rules were told.
        last: Answers in the last turn.
        opens: Says something before a question (one of its world's openings, from its second turn on).
        doubles: Asks a second question in the same message.
        invents: Writes rules of its own into an answer in place of those of the family that it was not told.
    """

    useful: float
    repeat: float
    early: float
    finish: float
    last: float
    opens: float = 0.0
    doubles: float = 0.0
    invents: float = 0.0


BAD = Habits(useful=0.25, repeat=0.1, early=0.03, finish=0.5, last=0.8)
BETTER = Habits(useful=0.40, repeat=0.08, early=0.03, finish=0.6, last=0.85)  # of the stronger agent
INFORMED = Habits(useful=0.90, repeat=0.0, early=0.0, finish=0.97, last=1.0)
HARD_BAD = Habits(useful=0.40, repeat=0.1, early=0.03, finish=0.5, last=0.8, opens=0.35, doubles=0.1, invents=0.5)
HARD_BETTER = replace(HARD_BAD, useful=0.65, repeat=0.05, finish=0.6)  # what the packaged agent was taught last
HARD_INFORMED = replace(INFORMED, opens=0.35, doubles=0.1)
HABITS = {  # by world
    "quick": {"bad": BAD, "better": BETTER, "informed": INFORMED},
    "hard": {"bad": HARD_BAD, "better": HARD_BETTER, "informed": HARD_INFORMED},
}


def next_topic(
    hidden: list[Rule], asked: list[str], told: set[str], habits: Habits, rng: random.Random, world: World
) -> str:
    """Return the topic that the imitated agent asks about next."""
    missing = [rule.topic for rule in hidden if rule.topic not in told]
    draw = rng.random()
    if missing and draw < habits.useful:
        return rng.choice(missing)
    if asked and draw < habits.useful + habits.repeat:
        return rng.choice(asked)
    return rng.choice(world.topics).name


def next_question(topic: str, first: bool, habits: Habits, rng: random.Random, world: World) -> str:
    """Return a message that asks about `topic`, perhaps with words before it and another question after it."""
    question = rng.choice(TOPIC_BY_NAME[topic].questions)
    if world.openings and not first and rng.random() < habits.opens:
        question = f"{rng.choice(world.openings)} {question}"
    if world.openings and rng.random() < habits.doubles:
        question += f" {rng.choice(rng.choice(world.topics).questions)}"
    return question


def imitation_dialogue(task: dict, informed: bool, rng: random.Random, own: Habits | None = None) -> list[dict]:
    """Return the messages of one imitated dialogue, the answer last.

    Args:
        task: Record of a mini task.
        informed: Whether the agent sees the reference solution. Then its habits are the informed ones of `HABITS` and
            its answer is that solution; otherwise the answer holds the rules that it was told.
        own: Habits of an uninformed agent; default: the bad ones of `HABITS`.
    """
    mini = task["mini"]
    world = world_of(mini)
    of_world = HABITS[world.name]
    habits = of_world["informed"] if informed else own or of_world["bad"]
    hidden, family, parts = rules_of(mini), family_of(mini), mini.get("parts", {})
    told: set[str] = set()
    asked: list[str] = []
    messages = [{"role": "user", "content": task["problem_description"]}]
    for turn in range(1, MAX_TURNS + 1):
        if len(told) == len(hidden):
            answers = rng.random() < habits.finish
        else:
            answers = turn > 1 and rng.random() < habits.early
        if answers or (turn == MAX_TURNS and rng.random() < habits.last):
            rules = hidden if informed else [rule for rule in hidden if rule.topic in told]
            if len(rules) < len(hidden) and habits.invents and rng.random() < habits.invents:
                rules += [draw_rule(topic, rng) for topic in family.topics if topic not in told]
            messages.append({"role": "assistant", "content": f"{ANSWER_MARKER}\n{source(family, rules)}"})
            return messages
        topic = next_topic(hidden, asked, told, habits, rng, world)
        asked.append(topic)
        told = {rule.topic for rule in hidden if asked.count(rule.topic) >= parts.get(rule.topic, 1)}
        question = next_question(topic, turn == 1, habits, rng, world)
        earlier = [message["content"] for message in messages if message["role"] == "assistant"]
        messages.append({"role": "assistant", "content": question})
        if turn < MAX_TURNS:
            messages.append({"role": "user", "content": answer(mini, question, rng, earlier)})
    return messages


def imitation_stream(
    seed: int, own: Habits | None = None, world: World = QUICK, informed_share: float = INFORMED_SHARE
) -> Iterator[tuple[str, list[dict]]]:
    """Yield endlessly (hint, messages) of imitated dialogues; the hint is empty in uninformed ones."""
    rng = random.Random(f"imitation {seed}")
    while True:
        family = rng.choice(world.families)
        task = describe(family, draw_rules(family, rng, world), rng, world)
        informed = rng.random() < informed_share
        hint = hint_text(task["ground_truth"]) if informed else ""
        yield hint, imitation_dialogue(task, informed, rng, own)
