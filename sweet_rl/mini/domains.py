"""The mini tasks as domains: code and frontend with a scripted human, and with the oracle's word on each turn."""

from __future__ import annotations

from dataclasses import replace

from lab.pages import page_oracle
from lab.pages.designer import ScriptedDesigner, check_page_tasks
from sweet_rl.domains import ScriptedHuman
from sweet_rl.domains.backend import environment as backend
from sweet_rl.domains.frontend import environment as frontend
from sweet_rl.mini import oracle
from sweet_rl.mini.human import MiniHuman, check_tasks

MINI = replace(
    backend.DOMAIN,
    name="mini",
    agent_prompt="mini_agent.txt",
    scripted_humans={"mini": ScriptedHuman(MiniHuman, check_tasks)},
    label_turn=oracle.label_turn,
)
MINI_HTML = replace(
    frontend.DOMAIN,
    name="mini_html",
    agent_prompt="mini_agent.txt",
    scripted_humans={"designer": ScriptedHuman(ScriptedDesigner, check_page_tasks)},
    label_turn=page_oracle.label_turn,
)
