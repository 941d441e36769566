"""The two worlds of mini tasks: what there is to ask about, and which functions are wished for (`worlds.json`).

A rule acts on one running number, `total`; rules apply in the order of the world's topics. A question about a topic
that is not among a task's rules is answered with "I don't know", so a topic is useful for some tasks and useless for
others; topics without forms are useless for all. The description names none of the rules: the agent has to learn which
question pays.

quick: three or four rules per task, the same topics for all tasks of a family.
hard: four or five rules per task. Three topics belong to the family; one or two more differ from task to task, and only
the answer to a question about another rule mentions them. A rule with two numbers is told in two parts, each to a
question of its own. Agents talk before they ask, and ask two questions in a message, of which the human answers the
first. How hard it is was set by an untrained agent and rejection fine-tuning alone, before a critic was trained in it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Topic:
    """One thing to ask about.

    Attributes:
        name: Name of the topic.
        questions: Phrasings of the same question.
        keywords: Words by which another question about it is known.
        forms: Ways to write the rule, each a line of code and answers; `{a}` and `{b}` are the rule's numbers, `{flag}`
            the function's second argument. A topic without forms is never part of a task.
        a: Smallest and largest first number.
        b: Smallest and largest second number.
        parts: Answers with the first number, and with the second, if the rule is told in two parts.
        noun: What an answer about another rule calls it.
    """

    name: str
    questions: tuple[str, ...]
    keywords: tuple[str, ...]
    forms: tuple[tuple[str, tuple[str, ...]], ...] = ()
    a: tuple[int, int] = (2, 9)
    b: tuple[int, int] = (2, 9)
    parts: tuple[tuple[str, ...], ...] = ()
    noun: str = ""


@dataclass(frozen=True)
class Family:
    """One kind of function: its name, its two arguments, how a client asks for it, the hidden topics."""

    name: str
    quantity: str
    flag: str
    wish: str
    topics: tuple[str, ...]


@dataclass(frozen=True)
class World:
    """Topics in the order in which their rules apply, families, the fewest and most rules of a task beside those of its
    family, and sentences that an agent says before a question."""

    name: str
    topics: tuple[Topic, ...]
    families: tuple[Family, ...]
    more_rules: tuple[int, int] = (0, 0)
    openings: tuple[str, ...] = ()


def _frozen(value: Any) -> Any:
    """The value with tuples in place of lists."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _world(name: str) -> World:
    fields = {key: _frozen(value) for key, value in _DATA[name].items()}
    topics = tuple(TOPIC_BY_NAME[topic] for topic in fields.pop("topics"))
    return World(name, topics, tuple(Family(*family) for family in fields.pop("families")), **fields)


_DATA = json.loads(Path(__file__).with_name("worlds.json").read_text(encoding="utf-8"))
TOPIC_BY_NAME = {row["name"]: Topic(**{key: _frozen(value) for key, value in row.items()}) for row in _DATA["topics"]}
ORDER = {name: index for index, name in enumerate(TOPIC_BY_NAME)}
QUICK, HARD = _world("quick"), _world("hard")
WORLDS = {world.name: world for world in (QUICK, HARD)}
PLACES, REQUESTS = _frozen(_DATA["places"]), _frozen(_DATA["requests"])
FAMILY_BY_NAME = {family.name: family for world in WORLDS.values() for family in world.families}
WORLD_OF_FAMILY = {family.name: world for world in WORLDS.values() for family in world.families}


def world_of(mini: dict) -> World:
    """The world of a task, by its `mini` field. Raises KeyError if its family is not known."""
    return WORLD_OF_FAMILY[mini["family"]]
