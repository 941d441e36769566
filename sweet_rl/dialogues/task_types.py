"""The domains of the package by the names that `--task_type` takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from sweet_rl.dialogues.backend import environment as backend
from sweet_rl.dialogues.domain import Domain
from sweet_rl.dialogues.frontend import environment as frontend
from sweet_rl.dialogues.mini.human import MINI
from sweet_rl.dialogues.released import released_code, released_html
from sweet_rl.runs.cli import UNRECORDED
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.user_file import named_or_loaded

CODE = replace(
    backend.DOMAIN,
    agent_prompts=MINI.agent_prompts,
    scripted_humans=MINI.scripted_humans,
    label_turn=MINI.label_turn,
)
"""Backend Programming, which also knows the mini agent and the scripted human of its tasks."""

PACKAGED = {"code": CODE, "html": frontend.DOMAIN, "mini": MINI}
RELEASED = {"code": released_code, "html": released_html}


@dataclass(frozen=True)
class ProtocolSettings:
    """The protocol of the dialogues: what agent and human are told, and how a dialogue ends.

    Attributes:
        protocol: sweet_rl, or released: ColBench as its authors published it, to compare with published figures. Its
            prompts are downloaded when they are first needed (CC-BY-NC 4.0).
        protocol_files: Folder with the files of the released protocol, for machines without a network.
    """

    protocol: Literal["sweet_rl", "released"] = "sweet_rl"
    protocol_files: Annotated[str | None, UNRECORDED] = None  # the prompts' hashes are recorded


def load_domain(name: str, protocol: ProtocolSettings | None = None) -> Domain:
    """The domain that `--task_type` names.

    Args:
        name: code, html, mini, or the path of a Python file that defines `DOMAIN`.
        protocol: Protocol of its dialogues; by default the package's own.

    Raises:
        UserError: There is no such domain, or not under this protocol; or the protocol's files cannot be had.
    """
    if protocol is not None and protocol.protocol == "released":
        if name not in RELEASED:
            raise UserError(f"the released protocol is for the task_type {' or '.join(RELEASED)}, not {name}.")
        return RELEASED[name](protocol.protocol_files)
    domain = named_or_loaded(name, PACKAGED, "DOMAIN", "task_type", Domain, "docs/your_own_domain.md")
    return domain if name in PACKAGED else replace(domain, source=Path(name).resolve())
