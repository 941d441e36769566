"""An estimate of what dialogues through servers cost, printed before the first call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from sweet_rl.runs.records import Task

CHARS_PER_TOKEN, TOKENS_PER_MESSAGE = 4, 100
TOKENS_PER_PICTURE = 1200  # about what vision models read for a window of 1280 x 720


@dataclass(frozen=True)
class Cost:
    """Calls and tokens of one side in some dialogues."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
        )

    def __str__(self) -> str:
        tokens = f"read {self.prompt_tokens:,} tokens and write {self.completion_tokens:,}"
        return f"at most {self.calls:,} calls, which {tokens}"


@dataclass(frozen=True)
class Lengths:
    """Lengths that an estimate counts with, in tokens.

    Attributes:
        answer: Length of the last message of the agent.
        agent: Length of an earlier message of the agent.
        shown: Length of a message of the agent as the human reads it.
        human: Length of a message of the human.
        pictures: Length of the pictures in a call of the human.
    """

    answer: int = TOKENS_PER_MESSAGE
    agent: int = TOKENS_PER_MESSAGE
    shown: int = TOKENS_PER_MESSAGE
    human: int = TOKENS_PER_MESSAGE
    pictures: int = 0

    @classmethod
    def of(cls, tasks: Sequence[Task], draws_pages: bool) -> Lengths:
        """The lengths of a domain: answers are as long as the references are in the mean, and each draft of a page."""
        if not tasks:
            return cls()
        answer = round(fmean(len(task.ground_truth) for task in tasks) / CHARS_PER_TOKEN)
        if draws_pages:
            return cls(answer=answer, agent=answer, pictures=2 * TOKENS_PER_PICTURE)
        return cls(answer=answer)

    def __str__(self) -> str:
        if self.pictures:
            page = f"a page of {self.answer:,} tokens (the mean of the reference pages) in each message of the agent"
            return f"{page}, {self.human} per reply, and {self.pictures:,} for two pictures in each call of the human"
        return f"{self.human} tokens per message, {self.answer:,} per answer (the mean of the reference solutions)"


def rest_of_dialogue(
    task: Task,
    max_turns: int,
    prompts: Mapping[str, str],
    lengths: Lengths,
    candidates: int = 1,
    stored: tuple[int, int] = (0, 0),
) -> dict[str, Cost]:
    """Return the largest cost of each side in a dialogue.

    Args:
        task: The task.
        max_turns: Number of messages of the agent in the dialogue.
        prompts: Template of each side that is counted, "agent" and "human". The human also reads the reference.
        lengths: Lengths of the messages.
        candidates: Number of replies of the agent per turn.
        stored: Numbers of messages of agent and human that need no call.
    """
    found = {}
    for side, template in prompts.items():
        base = len(template) + len(task.problem_description)
        if side == "agent":
            turns = range(stored[0], max_turns)
            read = sum(base // CHARS_PER_TOKEN + turn * (lengths.agent + lengths.human) for turn in turns)
            written = max(0, len(turns) - 1) * lengths.agent + (lengths.answer if turns else 0)
            found[side] = Cost(len(turns) * candidates, read, written * candidates)
        else:
            turns = range(stored[1], max_turns - 1)  # the human does not reply to the last message
            base += 0 if lengths.pictures else len(task.ground_truth)
            call = base // CHARS_PER_TOKEN + lengths.pictures
            read = sum(call + (turn + 1) * lengths.shown + turn * lengths.human for turn in turns)
            found[side] = Cost(len(turns), read, len(turns) * lengths.human)
    return found


def most(
    tasks: Sequence[Task],
    max_turns: int,
    prompts: Mapping[str, str],
    candidates: int = 1,
    lengths: Lengths | None = None,
) -> dict[str, Cost]:
    """Return the largest cost of each side in one dialogue per task. Arguments as in `rest_of_dialogue`."""
    total = dict.fromkeys(prompts, Cost())
    for task in tasks:
        for side, cost in rest_of_dialogue(task, max_turns, prompts, lengths or Lengths(), candidates).items():
            total[side] += cost
    return total


def estimate(
    tasks: Sequence[Task], max_turns: int, prompts: Mapping[str, str], candidates: int = 1, draws_pages: bool = False
) -> str:
    """Return lines for the user about dialogues that are to be played. Arguments as in `rest_of_dialogue`."""
    lengths = Lengths.of(tasks, draws_pages)
    costs = most(tasks, max_turns, prompts, candidates, lengths)
    note = f"{len(tasks):,} dialogues of {max_turns} turns, {lengths}, without reasoning and what is asked again"
    lines = [f"estimate, {side}: {cost}" for side, cost in costs.items()]
    return "\n".join([*lines, f"({note})"])
