"""What the hidden rules of a mini task say about a dialogue: which topic was asked, which question pays.

The rules are known, so the credit of a turn is known too. Only measurements use this; no agent, human
simulator or critic sees it.
"""

import re

from sweet_rl.environments.base import ANSWER_MARKER
from sweet_rl.mini.topics import TOPICS


def normalised(text: str) -> str:
    """Return `text` in lower case with single spaces and without punctuation at its ends."""
    return " ".join(text.lower().split()).strip(" .?!")


EXACT = {normalised(question): topic.name for topic in TOPICS for question in topic.questions}
PATTERNS = {topic.name: [re.compile(rf"\b{re.escape(keyword)}") for keyword in topic.keywords] for topic in TOPICS}


def topic_of(question: str) -> str | None:
    """Return the name of the topic that `question` is about, or None where it is about none.

    A known phrasing is taken at its word; any other question goes to the topic with the most keywords
    in it, the first in the order of `TOPICS` where several have as many.
    """
    text = normalised(question)
    if text in EXACT:
        return EXACT[text]
    hits = {name: sum(bool(pattern.search(text)) for pattern in patterns) for name, patterns in PATTERNS.items()}
    best = max(hits, key=hits.__getitem__)
    return best if hits[best] else None


def is_answer(text: str) -> bool:
    """Return whether an agent's turn ends the dialogue."""
    return ANSWER_MARKER in text


def told_topics(mini: dict, dialogue: list[dict]) -> set[str]:
    """Return the topics of the task's rules that the agent has asked about in `dialogue`."""
    asked = {topic_of(row["content"]) for row in dialogue if row["role"] == "assistant"}
    return asked & {rule[0] for rule in mini["rules"]}


def usefulness(mini: dict, dialogue: list[dict], turn: str) -> str:
    """Judge an agent's next `turn` after `dialogue` by the hidden rules.

    Returns one of `useful` (asks for a rule not yet told), `repeated` (for a rule told already),
    `useless` (any other question), `complete` (answers and every rule was told), `early` (answers
    before that).
    """
    told = told_topics(mini, dialogue)
    hidden = {rule[0] for rule in mini["rules"]}
    if is_answer(turn):
        return "complete" if told == hidden else "early"
    topic = topic_of(turn)
    if topic not in hidden:
        return "useless"
    return "repeated" if topic in told else "useful"
