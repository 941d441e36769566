"""Oracle of the mini tasks: judges each turn of the agent by the task's hidden rules.

The rules are known, so the credit of a turn is known too. No agent, simulated human or critic sees a judgement. The
scripted human uses `topic_of` to find out what a question is about.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from sweet_rl.dialogues.answer_environment import ANSWER_MARKER
from sweet_rl.dialogues.mini.worlds import QUICK, WORLDS, World, world_of
from sweet_rl.runs.records import Message, Task


def normalised(text: str) -> str:
    """Return `text` in lower case with single spaces and without punctuation at its ends."""
    return " ".join(text.lower().split()).strip(" .?!")


EXACT = {
    name: {normalised(question): topic.name for topic in world.topics for question in topic.questions}
    for name, world in WORLDS.items()
}
PATTERNS = {
    name: {topic.name: [re.compile(rf"\b{re.escape(keyword)}") for keyword in topic.keywords] for topic in world.topics}
    for name, world in WORLDS.items()
}


def topic_of(question: str, world: World = QUICK) -> str | None:
    """Return the name of the topic that `question` is about, or None if it is about none.

    A known phrasing belongs to its own topic; in the hard world it may be a sentence among others, and the first one
    counts. Any other question belongs to the topic with the most keywords in it; of several such topics, to the first
    in the order of the world's topics.
    """
    text, exact = normalised(question), EXACT[world.name]
    for sentence in [text, *map(normalised, re.split(r"(?<=[.?!])\s", question) if world.openings else ())]:
        if sentence in exact:
            return exact[sentence]
    patterns_of = PATTERNS[world.name]
    hits = {name: sum(bool(pattern.search(text)) for pattern in patterns) for name, patterns in patterns_of.items()}
    best = max(hits, key=hits.__getitem__)
    return best if hits[best] else None


def is_answer(text: str) -> bool:
    """Return whether an agent's turn ends the dialogue."""
    return ANSWER_MARKER in text


def told_topics(mini: dict, dialogue: Sequence[Message]) -> set[str]:
    """Return the topics of the task's rules that the human has told in `dialogue`, with all of their parts."""
    world, parts = world_of(mini), mini.get("parts", {})
    asked = Counter(topic_of(row["content"], world) for row in dialogue if row["role"] == "assistant")
    return {rule[0] for rule in mini["rules"] if asked[rule[0]] >= parts.get(rule[0], 1)}


def usefulness(mini: dict, dialogue: Sequence[Message], turn: str) -> str:
    """Judge a turn of the agent, after the messages `dialogue`, by the hidden rules of the field `mini` of its task.

    Returns:
        `useful` (asks about a rule that was not told yet, or not in all its parts), `repeated` (about a rule that was
        told already), `useless` (any other question), `complete` (answers after every rule was told) or `early`
        (answers before that).
    """
    told = told_topics(mini, dialogue)
    hidden = {rule[0] for rule in mini["rules"]}
    if is_answer(turn):
        return "complete" if told == hidden else "early"
    topic = topic_of(turn, world_of(mini))
    if topic not in hidden:
        return "useless"
    return "repeated" if topic in told else "useful"


def label_turn(task: Task, messages_before: Sequence[Message], text: str) -> str | None:
    """The oracle's word on a turn of the agent (see `usefulness`); None if `task` is not a mini task."""
    mini = task.extra.get("mini")
    if not isinstance(mini, dict) or "rules" not in mini:
        return None
    return usefulness(mini, messages_before, text)
