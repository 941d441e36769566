"""The critic's credit of every turn in a file: computed once, kept on disk, found by record id."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TypedDict

from sweet_rl.method.critics import ChosenCritic
from sweet_rl.method.turn_credit import TurnScorer, check_scores_turns
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import RecordFile, parse_row, scan_rows
from sweet_rl.runs.records.checks import read_fields
from sweet_rl.runs.run import Run, open_run
from sweet_rl.runs.step import run_step, write_results

RECORDS_AT_ONCE = 32


def write_credit(critic: ChosenCritic, records: RecordFile, path: str | Path, overwrite: bool = False) -> None:
    """Compute the credit of every record that has none in `path` yet. A call after an interruption continues.

    Each line is {id, turns}; the rows of `turns` are those of `TurnScorer.rows`.

    Args:
        critic: The critic.
        records: Trajectories or candidates.
        path: The file.
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

        total = sum(1 for _ in records.scan())
        missing = (record for _, record in records.scan() if record.id not in run.done)
        size, at_once = min(RECORDS_AT_ONCE, scorer.critic.turns_per_call), scorer.critic.calls_at_once
        groups = iter(lambda: list(islice(missing, size)), [])
        try:
            await write_results(run, groups, credited, at_once, total, "record", size=len)
        finally:
            await scorer.critic.close()
        return {"records": total}

    settings = critic.to_settings() | {"limit": records.limit}
    run_step(open_run(path, settings, [str(records.path), *critic.inputs()], overwrite), work)


class _Turn(TypedDict):
    turn: int
    advantage: float


class _Row(_Turn, total=False):
    """The credit of a turn; with a critic that offers it, also by token."""

    tokens: list[str]
    critic: list[float]
    reference: list[float]


class CreditFile:
    """The file written by `write_credit`; only offsets of its lines are kept in memory."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._places: dict[str, int] = {}
        if not self.path.is_file():
            raise UserError(f"{path} is no file. Give --critic to make it.")
        for line, offset, row in scan_rows(path):
            if not isinstance(row.get("id"), str) or not isinstance(row.get("turns"), list):
                raise UserError(f"{path}: not a file of credit ('id' and 'turns'). It is written with --critic.")
            for number, turn in enumerate(row["turns"]):
                read_fields(turn, f"{path}, line {line}, turns[{number}]", _Row)
            self._places[row["id"]] = offset

    def turns(self, record_id: str) -> dict[int, dict]:
        """The credit of a record by turn (of candidates: by candidate number); empty if it is not in the file."""
        if record_id not in self._places:
            return {}
        with open(self.path, "rb") as file:
            file.seek(self._places[record_id])
            row = parse_row(file.readline(), str(self.path))
        return {turn["turn"]: {k: v for k, v in turn.items() if k != "turn"} for turn in row["turns"]}
