"""The domains of the package by the names that `--task_type` takes."""

from __future__ import annotations

from dataclasses import replace

from sweet_rl.dialogues.backend import environment as backend
from sweet_rl.dialogues.domain import Domain
from sweet_rl.dialogues.frontend import environment as frontend
from sweet_rl.dialogues.mini.domain import MINI
from sweet_rl.dialogues.named_domain import named_domain

CODE = replace(
    backend.DOMAIN,
    agent_prompts=MINI.agent_prompts,
    scripted_humans=MINI.scripted_humans,
    label_turn=MINI.label_turn,
)
"""Backend Programming, which also knows the mini agent and the scripted human of its tasks."""

PACKAGED = {"code": CODE, "html": frontend.DOMAIN, "mini": MINI}


def load_domain(name: str) -> Domain:
    """The domain that `--task_type` names.

    Args:
        name: Name: code, html, mini, or the path of a Python file that defines `DOMAIN`.

    Raises:
        UserError: There is no such name or file, the file cannot be imported, or its `DOMAIN` is no `Domain`.
    """
    return named_domain(name, PACKAGED)
