"""The kind of records that a JSONL file for the viewer holds."""

from __future__ import annotations

from pathlib import Path

from sweet_rl.runs import records
from sweet_rl.runs.errors import UserError


def kind_of(path: str | Path) -> type:
    """Trajectory, TurnCandidates or PreferencePair (`records.kind_of`). Raises UserError for anything else."""
    kind = records.kind_of(path)
    if kind is records.Task:
        raise UserError(
            f"{path} holds tasks: there is no dialogue in it to look at. Play some with simulate_interactions.py."
        )
    return kind
