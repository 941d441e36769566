"""Dialogues that the tiny agent learns to imitate: in good form, with bad questions.

The imitated agent asks mostly at random, repeats itself, and sometimes answers before it knows the rules; it writes the
rules that it was told into code without mistakes. In a share of the dialogues it sees the solution first, as the critic
will (informed dialogues). Then it nearly always asks about a rule of the solution that was not told yet, and answers
with the solution when all rules were told, as a large language model would. From these clear habits even a tiny model
learns to attend to the questions that were asked before.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from sweet_rl.environments.base import ANSWER_MARKER
from sweet_rl.mini.human import answer
from sweet_rl.mini.tasks import Rule, describe, draw_rules, family_of, rules_of, source
from sweet_rl.mini.topics import FAMILIES, TOPIC_BY_NAME, TOPICS
from sweet_rl.scoring.privileged_information import hint_text

MAX_TURNS = 10
INFORMED_SHARE = 0.4


@dataclass(frozen=True)
class Habits:
    """How an imitated agent behaves, as probabilities per turn.

    Attributes:
        useful: asks about a rule that it was not told yet.
        repeat: asks again about something that it asked before; otherwise it asks about a random topic.
        early: answers although rules are missing, from its second turn on.
        finish: answers when all rules were told.
        last: answers in the last turn.
    """

    useful: float
    repeat: float
    early: float
    finish: float
    last: float


BAD = Habits(useful=0.25, repeat=0.1, early=0.03, finish=0.5, last=0.8)
BETTER = Habits(useful=0.40, repeat=0.08, early=0.03, finish=0.6, last=0.85)  # of the stronger agent
INFORMED = Habits(useful=0.90, repeat=0.0, early=0.0, finish=0.97, last=1.0)


def next_question(hidden: list[Rule], asked: list[str], told: set[str], habits: Habits, rng: random.Random) -> str:
    """Return the topic that the imitated agent asks about next."""
    missing = [rule.topic for rule in hidden if rule.topic not in told]
    draw = rng.random()
    if missing and draw < habits.useful:
        return rng.choice(missing)
    if asked and draw < habits.useful + habits.repeat:
        return rng.choice(asked)
    return rng.choice(TOPICS).name


def imitation_dialogue(task: dict, informed: bool, rng: random.Random, own: Habits = BAD) -> list[dict]:
    """Return the messages of one imitated dialogue, the answer last.

    Args:
        task: record of a mini task.
        informed: whether the agent sees the reference solution. Then its habits are `INFORMED` and its answer is that
            solution; otherwise the answer holds the rules that it was told.
        own: habits of an uninformed agent.
    """
    habits = INFORMED if informed else own
    mini = task["mini"]
    hidden, family = rules_of(mini), family_of(mini)
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
            messages.append({"role": "assistant", "content": f"{ANSWER_MARKER}\n{source(family, rules)}"})
            return messages
        topic = next_question(hidden, asked, told, habits, rng)
        asked.append(topic)
        told |= {topic} & {rule.topic for rule in hidden}
        question = rng.choice(TOPIC_BY_NAME[topic].questions)
        messages.append({"role": "assistant", "content": question})
        if turn < MAX_TURNS:
            messages.append({"role": "user", "content": answer(mini, question, rng)})
    return messages


def imitation_stream(seed: int, own: Habits = BAD) -> Iterator[tuple[str, list[dict]]]:
    """Yield endlessly (hint, messages) of imitated dialogues; the hint is empty in uninformed ones."""
    rng = random.Random(f"imitation {seed}")
    while True:
        family = rng.choice(FAMILIES)
        task = describe(family, draw_rules(family, rng), rng)
        informed = rng.random() < INFORMED_SHARE
        hint = hint_text(task["ground_truth"]) if informed else ""
        yield hint, imitation_dialogue(task, informed, rng, own)
