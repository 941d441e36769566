"""The mini tasks as domains: code and frontend with a scripted human, and with the oracle's word on each turn."""

from __future__ import annotations

from dataclasses import replace

from sweet_rl.environments import Domain, ScriptedHuman, backend, frontend
from sweet_rl.mini import oracle, page_oracle
from sweet_rl.mini.designer import ScriptedDesigner, check_page_tasks
from sweet_rl.mini.human import MiniHuman, check_tasks
from sweet_rl.mini.pages import read_page
from sweet_rl.models.base import Message
from sweet_rl.records import Task


def label_turn(task: Task, messages: list[Message], text: str) -> str | None:
    """The oracle's word on a turn of a mini task (`oracle.usefulness`); None for any other task."""
    mini = task.extra.get("mini")
    return None if mini is None else oracle.usefulness(mini, messages, text)


def label_page_turn(task: Task, messages: list[Message], text: str) -> str | None:
    """The oracle's word on a turn of a mini page task (`page_oracle.usefulness`); None for any other task."""
    reference = read_page(task.ground_truth)
    return None if reference is None else page_oracle.usefulness(reference, messages, text)


MINI = replace(
    backend.DOMAIN,
    name="mini",
    agent_prompt="mini_agent.txt",
    scripted_humans={"mini": ScriptedHuman(MiniHuman, check_tasks)},
    label_turn=label_turn,
)
MINI_HTML = replace(
    frontend.DOMAIN,
    name="mini_html",
    agent_prompt="mini_agent.txt",
    scripted_humans={"designer": ScriptedHuman(ScriptedDesigner, check_page_tasks)},
    label_turn=label_page_turn,
)
