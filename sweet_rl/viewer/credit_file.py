"""The critic's credit of every turn in a file: computed once, kept on disk, found by record id."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

from sweet_rl.credit.critics import CriticSettings
from sweet_rl.errors import UserError
from sweet_rl.model_loading import check_loadable, model_path
from sweet_rl.progress import progress_bar
from sweet_rl.records import Trajectory, parse_row, scan_rows
from sweet_rl.runs.run import open_run
from sweet_rl.viewer.source import RecordFile

RECORDS_AT_ONCE = 32


def write_credit(
    settings: CriticSettings,
    records: RecordFile,
    path: str | Path,
    overwrite: bool = False,
    response_template: str | None = None,
) -> None:
    """Compute the credit of every record that has none in `path` yet. A call after an interruption continues.

    Each line is {id, turns}, as in turn_credit.py; `response_template` as there. Raises UserError before anything is
    written.
    """
    from sweet_rl.credit.sweet_critic import LogRatioCritic
    from sweet_rl.credit.turn_credit import TurnCredit
    from sweet_rl.log_probs.value_head import has_value_head

    settings = replace(settings, reference=settings.reference or "seed")
    if settings.critic_type != "log_ratio":
        raise UserError(f"a critic of the kind {settings.critic_type} has no credit by token: only log_ratio has.")
    if has_value_head(model_path(settings.model_id)):
        raise UserError(
            f"--critic {settings.model_id} has a value head, which gives a turn one value and its tokens none. Rank "
            "candidates with it (rank_best_of_n.py --critic_type value) and look at the ranked file."
        )
    seed = settings.seed_model
    if seed is None and records.kind is Trajectory:
        raise UserError(
            "--reference sampled is for candidates: dialogues are compared with a model. Give seed or seed_without_c."
        )
    kept = settings.to_settings() | {"response_template": response_template, "limit": records.limit}
    total = sum(1 for _ in records.scan())
    for name in filter(None, (settings.model_id, seed)):
        check_loadable(name)
    with open_run(path, kept, [str(records.path), *settings.inputs()], overwrite) as run:
        if run.complete:
            print(f"{path}: already complete")
            return
        scorer = TurnCredit(LogRatioCritic.load(settings), response_template)
        score = scorer.of_trajectories if records.kind is Trajectory else scorer.of_candidates
        todo = (record for _, record in records.scan() if record.id not in run.done)
        with progress_bar(total=total, initial=len(run.done), desc="credit", unit=" records") as bar:
            for group in iter(lambda: list(islice(todo, RECORDS_AT_ONCE)), []):
                for record, turns in zip(group, score(group), strict=True):
                    run.write({"id": record.id, "turns": turns})
                bar.update(len(group))
        run.finish({"records": total})


class CreditFile:
    """The file written by `write_credit`; only offsets of its lines are kept in memory."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._places: dict[str, int] = {}
        if not self.path.is_file():
            raise UserError(f"{path} is no file. Give --critic to make it.")
        for _, offset, row in scan_rows(path):
            if not isinstance(row.get("id"), str) or not isinstance(row.get("turns"), list):
                raise UserError(f"{path}: not a file of credit ('id' and 'turns'). It is written with --critic.")
            self._places[row["id"]] = offset

    def turns(self, record_id: str) -> dict[int, dict]:
        """The credit of a record by turn (of candidates: by candidate number); empty if it is not in the file."""
        if record_id not in self._places:
            return {}
        with open(self.path, "rb") as file:
            file.seek(self._places[record_id])
            row = parse_row(file.readline(), str(self.path))
        return {turn["turn"]: {k: v for k, v in turn.items() if k != "turn"} for turn in row["turns"]}
