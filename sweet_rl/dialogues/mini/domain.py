"""The mini tasks as a domain: code with a scripted human, and with the oracle's word on each turn."""

from __future__ import annotations

from dataclasses import replace

from sweet_rl.dialogues.backend import environment as backend
from sweet_rl.dialogues.domain import ScriptedHuman
from sweet_rl.dialogues.mini import oracle
from sweet_rl.dialogues.mini.human import MiniHuman, check_tasks

AGENTS = ("mini", "mini_hard")

MINI = replace(
    backend.DOMAIN,
    name="mini",
    agent_prompts=dict.fromkeys(AGENTS, "mini_agent.txt"),
    scripted_humans={"mini": ScriptedHuman(MiniHuman, check_tasks)},
    label_turn=oracle.label_turn,
)
