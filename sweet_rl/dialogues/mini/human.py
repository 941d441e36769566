"""The scripted human of the mini tasks, who answers from the hidden rules without a model, and their domain."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from sweet_rl.dialogues.backend import environment as backend
from sweet_rl.dialogues.mini.oracle import label_turn, topic_of
from sweet_rl.dialogues.mini.tasks import family_of, rules_of
from sweet_rl.dialogues.mini.worlds import TOPIC_BY_NAME, world_of
from sweet_rl.dialogues.simulated_human import HumanReply
from sweet_rl.models.base import Message
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task

UNKNOWN = ("I don't know.", "I don't know, sorry.", "No idea, I can't say.", "That I don't know.")
UNCLEAR = ("I don't know what you mean.", "Sorry, I don't know how to answer that.")
MENTIONS = ("That is before the {noun}.", "The {noun} comes on top of that.", "And do not forget the {noun}.")


def answer(mini: dict, question: str, rng: random.Random, earlier: Sequence[str] = ()) -> str:
    """Answer the first question of a message from the rules of a task's `mini` field; any other with "I don't know".

    A rule with parts is told one part at a time, by the agent's `earlier` messages; the last one again and again.
    """
    world = world_of(mini)
    topic = topic_of(question, world)
    if topic is None:
        return rng.choice(UNCLEAR)
    for rule in rules_of(mini):
        if rule.topic == topic:
            flag = family_of(mini).flag
            sentences = rule.sentences(flag)
            if topic in mini.get("parts", ()):
                parts, asked = rule.parts(flag), sum(topic_of(text, world) == topic for text in earlier)
                sentences = parts[min(asked, len(parts) - 1)]
            said = rng.choice(sentences)
            if mentioned := mini.get("mentions", {}).get(topic):
                said += " " + rng.choice(MENTIONS).format(noun=TOPIC_BY_NAME[mentioned].noun)
            return said
    return rng.choice(UNKNOWN)


class MiniHuman:
    """Replies to the agent of a mini task; the same seed gives the same words."""

    async def reply(self, task: Task, dialogue: list[Message], seed: int) -> HumanReply:
        """The reply to the last message of `dialogue`. Raises UserError if `task` is not a mini task."""
        try:
            family_of(task.extra["mini"])
            rules_of(task.extra["mini"])
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"task {task.id!r} has no known rules in a field 'mini': the scripted human knows only the tasks of "
                "scripts/make_mini_tasks.py. Let a language model play the human."
            ) from error
        *earlier, question = [message["content"] for message in dialogue if message["role"] == "assistant"]
        return HumanReply(answer(task.extra["mini"], question, random.Random(seed), earlier))


MINI = replace(
    backend.DOMAIN,
    name="mini",
    agent_prompts=dict.fromkeys(("mini", "mini_hard"), "mini_agent.txt"),
    scripted_humans={"mini": MiniHuman},
    label_turn=label_turn,
)
