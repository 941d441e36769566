"""The mini tasks as a domain: code with a scripted human, and with the oracle's word on each turn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from sweet_rl.dialogues.backend import environment as backend
from sweet_rl.dialogues.domain import ScriptedHuman
from sweet_rl.dialogues.mini import oracle
from sweet_rl.dialogues.mini.human import MiniHuman, check_tasks
from sweet_rl.dialogues.mini.worlds import FAMILY_BY_NAME
from sweet_rl.runs.records import Task

AGENTS = ("mini", "mini_hard")

MINI = replace(
    backend.DOMAIN,
    name="mini",
    agent_prompts=dict.fromkeys(AGENTS, "mini_agent.txt"),
    scripted_humans={"mini": ScriptedHuman(MiniHuman, check_tasks)},
    label_turn=oracle.label_turn,
)


def foreign_tasks(agent_model: str, tasks: Sequence[Task]) -> str | None:
    """One line for people if a packaged agent is asked about tasks that it was not made for; None if not.

    Args:
        agent_model: Name of the agent.
        tasks: Tasks that it plays. Its own end in the first line of a function of the mini worlds.
    """
    if agent_model not in AGENTS:
        return None
    foreign = [task for task in tasks if not _own(task)]
    if not foreign:
        return None
    return (
        f"{agent_model} was made for the functions of make_mini_tasks.py and knows no other words: {len(foreign)} of "
        f"the {len(tasks)} tasks are about something else (task {foreign[0].id}: "
        f"{foreign[0].problem_description[:60]!r}), so its messages mean nothing there. Name a chat model as "
        "--agent_model."
    )


def _own(task: Task) -> bool:
    found = re.search(r"^def (\w+)\(", task.problem_description, re.MULTILINE)
    return found is not None and found[1] in FAMILY_BY_NAME
