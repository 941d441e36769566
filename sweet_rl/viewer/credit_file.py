"""The critic's credit of every turn in a file: computed once, kept on disk, found by record id."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NotRequired

from typing_extensions import TypedDict

from sweet_rl.method.critics import ChosenCritic
from sweet_rl.method.turn_credit import TurnScorer, check_scores_turns
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Trajectory, TurnCandidates, read_rows, validated
from sweet_rl.runs.records.schema import Number, Whole
from sweet_rl.runs.run import Run, open_run
from sweet_rl.runs.step import run_step, write_results

RECORDS_AT_ONCE = 32


def write_credit(
    critic: ChosenCritic,
    records: Sequence[Trajectory | TurnCandidates],
    input_path: str,
    path: str | Path,
    limit: int | None = None,
    overwrite: bool = False,
) -> None:
    """Compute the credit of every record that has none in `path` yet. A call after an interruption continues.

    Each line is {id, turns}; the rows of `turns` are those of `TurnScorer.rows`.

    Args:
        critic: The critic.
        records: Trajectories or candidates.
        input_path: Their file.
        path: The file of the credit.
        limit: Number of records that were read of the input.
        overwrite: Whether a file of another critic is replaced.

    Raises:
        UserError: Before anything is written; or a turn cannot be scored.
    """
    check_scores_turns(critic)
    critic.check_models()

    async def work(run: Run) -> dict:
        scorer = TurnScorer(critic)

        async def credited(group: list) -> list[dict]:
            return [{"id": one.id, "turns": rows} for one, rows in zip(group, await scorer.rows(group), strict=True)]

        missing = (record for record in records if record.id not in run.done)
        size, at_once = min(RECORDS_AT_ONCE, scorer.critic.turns_per_call), scorer.critic.calls_at_once
        groups = iter(lambda: list(islice(missing, size)), [])
        try:
            await write_results(run, groups, credited, at_once, len(records), "record", size=len)
        finally:
            await scorer.critic.close()
        return {"records": len(records)}

    settings = critic.to_settings() | {"limit": limit}
    run_step(open_run(path, settings, [input_path, *critic.inputs()], overwrite), work)


class _Turn(TypedDict):
    """The credit of a turn; with a critic that offers it, also by token."""

    turn: Whole
    advantage: Number
    tokens: NotRequired[list[str] | None]
    critic: NotRequired[list[Number] | None]
    reference: NotRequired[list[Number] | None]


class _Credit(TypedDict):
    id: str
    turns: list[_Turn]


class CreditFile:
    """The file written by `write_credit`."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._turns: dict[str, list[_Turn]] = {}
        if not self.path.is_file():
            raise UserError(f"{path} is no file. Give --critic to make it.")
        for line, row in read_rows(path):
            credit = validated(_Credit, row, f"{path}, line {line}")
            self._turns[credit["id"]] = credit["turns"]

    def turns(self, record_id: str) -> dict[int, dict]:
        """The credit of a record by turn (of candidates: by candidate number); empty if it is not in the file."""
        rows = self._turns.get(record_id, [])
        return {turn["turn"]: {name: value for name, value in turn.items() if name != "turn"} for turn in rows}
