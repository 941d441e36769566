"""The kind of records that a JSONL file for the viewer holds."""

from __future__ import annotations

from pathlib import Path

from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import PreferencePair, Trajectory, TurnCandidates, scan_rows

MARKS = (("dialogue_history", Trajectory), ("additional_outputs", TurnCandidates), ("chosen", PreferencePair))


def kind_of(path: str | Path) -> type:
    """Trajectory, TurnCandidates or PreferencePair, by the fields of the file's first record.

    Raises:
        UserError: the file is missing, empty or holds something else.
    """
    number, _, row = next(scan_rows(path), (0, 0, None))
    if row is None:
        raise UserError(f"{path} has no records. Was the step that writes it finished?")
    for mark, kind in MARKS:
        if mark in row:
            return kind
    if "problem_description" in row:
        raise UserError(
            f"{path} holds tasks: there is no dialogue in it to look at. Play some with simulate_interactions.py."
        )
    raise UserError(
        f"{path}, line {number}: neither a trajectory ('dialogue_history'), nor candidates ('additional_outputs'), nor "
        f"a preference pair ('chosen'). Fields found: {', '.join(map(repr, row)) or 'none'}."
    )
