"""Dialogues for the tiny agent to imitate: it learns the form well and the asking badly.

The imitated agent asks mostly at random, repeats itself, and sometimes answers before it knows the
rules; what it was told it writes into code without mistakes. In a share of the dialogues it is shown
the solution first, as the critic will be: then it asks for what the solution needs and it was not told
yet, hardly ever for anything else, and answers with the solution once it was told all, as a large
language model would. So sharp a habit is what teaches so small a model to see what was asked before.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from sweet_rl.environments.base import ANSWER_MARKER
from sweet_rl.mini.human import answer
from sweet_rl.mini.tasks import Rule, describe, draw_rules, family_of, rules_of, source
from sweet_rl.mini.topics import FAMILIES, TOPIC_BY_NAME, TOPICS
from sweet_rl.scoring.privileged_information import HINT

MAX_TURNS = 10
INFORMED_SHARE = 0.4


@dataclass(frozen=True)
class Habits:
    """How an imitated agent behaves, as chances per turn.

    `useful`: asks on purpose for a rule that it has not been told. `repeat`: asks again what it asked
    before. Otherwise it asks about a random topic. `early`: answers although rules are missing, from its
    second turn on. `finish`: answers once all rules were told. `last`: answers at the last turn.
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
    """Return the messages of one imitated dialogue about a mini task record, the answer last.

    An uninformed agent has its `own` habits and its answer holds the rules it was told; an informed one's answer is the
    task's reference solution.
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
    """Yield (hint or empty, messages) of imitated dialogues without end."""
    rng = random.Random(f"imitation {seed}")
    while True:
        family = rng.choice(FAMILIES)
        task = describe(family, draw_rules(family, rng), rng)
        informed = rng.random() < INFORMED_SHARE
        hint = HINT.format(ground_truth=task["ground_truth"]) if informed else ""
        yield hint, imitation_dialogue(task, informed, rng, own)
