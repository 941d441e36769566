"""Ciphered tasks: the agent has T questions for a client, of whose topics some matter; c names these in a cipher.

python scripts/simulate_interactions.py --task_type lab/ciphered/domain.py --env_model client --max_turns 6 ...

The agent asks one question a turn, and the dialogue ends by itself after T turns: no decision to stop, and no
difference in length. An answer is what was asked; its reward is 1 if at least `enough` of the `needed` topics are
among it. `ground_truth` is one cipher word a needed topic, and no agent was taught what they mean.

The task's `replies` says what the client answers: "silent", always the same; "revealing", whether the topic matters;
"clue", a word that belongs to a topic which matters and was not asked about; "revealing_clue", both.
"""

from __future__ import annotations

from lab.ciphered.tasks import TOPICS, asked_topics, reply_to, topic_of
from sweet_rl.dialogues import AnswerEnvironment, Domain, HumanReply
from sweet_rl.models.base import Completion, Message
from sweet_rl.runs.records import Task


class FixedTurns(AnswerEnvironment):
    """A dialogue of exactly `max_turns` questions."""

    def step(self, completion: Completion, prompt_text: str | None = None) -> None:
        super().step(completion, prompt_text)
        if self.over:
            self.ending = "answered"
            self.answer = " ".join(topic or "-" for topic in asked_topics(self.dialogue))


class Client:
    """The scripted human."""

    async def reply(self, task: Task, dialogue: list[Message], seed: int) -> HumanReply:
        return HumanReply(reply_to(task.extra["needed"], asked_topics(dialogue), task.extra["replies"]))


def reward(task: Task, answer: str) -> float:
    """1.0 if enough of the needed topics were asked about."""
    return float(len(set(task.extra["needed"]) & set(answer.split())) >= task.extra["enough"])


def label_turn(task: Task, messages_before: list[Message], text: str) -> str:
    """useful, useless, repeated, none (asks about no topic), or decided: enough topics were found before."""
    topic, asked, needed = topic_of(text), asked_topics(messages_before), set(task.extra["needed"])
    if len(needed & set(asked)) >= task.extra["enough"]:
        return "decided"
    if topic not in TOPICS:
        return "none"
    if topic in asked:
        return "repeated"
    return "useful" if topic in needed else "useless"


DOMAIN = Domain(
    name="ciphered",
    environment=FixedTurns,
    agent_prompt="{problem_description}",
    scripted_humans={"client": Client},
    reward=reward,
    label_turn=label_turn,
)
