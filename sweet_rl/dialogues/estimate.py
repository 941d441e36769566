"""An estimate of what dialogues through servers cost, printed before the first call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweet_rl.runs.records import Task

CHARS_PER_TOKEN, TOKENS_PER_MESSAGE = 4, 100


@dataclass(frozen=True)
class Cost:
    """Calls and tokens of one side in some dialogues."""

    calls: int
    prompt_tokens: int
    completion_tokens: int


def most(tasks: Sequence[Task], max_turns: int, prompts: Mapping[str, str], candidates: int = 1) -> dict[str, Cost]:
    """Return the largest cost of each side in one dialogue per task, with messages of TOKENS_PER_MESSAGE.

    Args:
        tasks: The task of each dialogue.
        max_turns: Number of messages of the agent in a dialogue.
        prompts: Template of each side that is counted, "agent" and "human". The human also reads the reference.
        candidates: Number of replies of the agent per turn.
    """
    found = {}
    for side, template in prompts.items():
        calls = max_turns - (side == "human")  # the human does not reply to the last message
        chars = sum(len(template) + len(task.problem_description) for task in tasks)
        if side == "human":
            chars += sum(len(task.ground_truth) for task in tasks)
        replies = candidates if side == "agent" else 1
        # Call number c reads c messages of the other side and c of its own, of the human's: c + 1 and c.
        messages = calls * (calls - 1) + (calls if side == "human" else 0)
        found[side] = Cost(
            calls * replies * len(tasks),
            calls * chars // CHARS_PER_TOKEN + messages * TOKENS_PER_MESSAGE * len(tasks),
            calls * replies * TOKENS_PER_MESSAGE * len(tasks),
        )
    return found


def estimate(tasks: Sequence[Task], max_turns: int, prompts: Mapping[str, str], candidates: int = 1) -> str:
    """Return lines for the user about dialogues that are to be played. Arguments as in `most`."""
    note = f"{len(tasks):,} dialogues of {max_turns} turns, {TOKENS_PER_MESSAGE} tokens per message, without reasoning"
    lines = [
        f"estimate, {side}: at most {cost.calls:,} calls, which read {cost.prompt_tokens:,} tokens and write "
        f"{cost.completion_tokens:,}"
        for side, cost in most(tasks, max_turns, prompts, candidates).items()
    ]
    return "\n".join([*lines, f"({note} and pictures; --max_calls is a limit)"])
