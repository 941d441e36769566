"""The critic's credit of every turn in a file: computed once, kept on disk, found by record id."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from sweet_rl.errors import UserError
from sweet_rl.models.load import model_input
from sweet_rl.models.loadable import check_loadable
from sweet_rl.names import model_path
from sweet_rl.progress import progress_bar
from sweet_rl.records import Trajectory, TurnCandidates, parse_row, scan_rows
from sweet_rl.runs.run import open_run
from sweet_rl.scoring.length_normalization import NORMALIZE
from sweet_rl.viewer.source import RecordFile

RECORDS_AT_ONCE = 32


@dataclass(frozen=True)
class CreditSettings:
    """Which critic gives the credit, and against which reference model; the settings of rank_best_of_n.py.

    Attributes:
        critic: model or folder of the critic.
        reference: seed (the model that the critic was trained from, with the critic's input), seed_without_c (that
            model without the reference solution) or, for candidates, sampled (the stored log-probs of sampling).
        reference_model_id: the reference model; default: the model that the critic was trained from.
        no_prompt: do not show the critic the reference solution.
        normalize: turn or trajectory (mean log-ratio of a turn's tokens) or none (their sum).
        response_template: text before each turn of the agent in released texts.
        bf16: compute in bfloat16.
        token_budget: tokens per batch.

    Raises:
        UserError: an unknown value.
    """

    critic: str
    reference: str = "seed"
    reference_model_id: str | None = None
    no_prompt: bool = False
    normalize: str = "turn"
    response_template: str | None = None
    bf16: bool = False
    token_budget: int = 16384

    def __post_init__(self) -> None:
        if self.reference not in ("seed", "seed_without_c", "sampled"):
            raise UserError(f"--reference is {self.reference!r}; it must be seed, seed_without_c or sampled.")
        if self.normalize not in NORMALIZE:
            raise UserError(f"--normalize is {self.normalize!r}; it must be one of {', '.join(NORMALIZE)}.")
        if self.token_budget < 1:
            raise UserError(f"--token_budget is {self.token_budget}; it must be at least 1.")

    @property
    def hint(self) -> bool:
        """Whether the critic sees the reference solution."""
        return not self.no_prompt

    def reference_model(self, kind: type) -> str | None:
        """The reference model; None if candidates bring its log-probs. Raises UserError if it is unknown."""
        if self.reference == "sampled":
            if kind is not TurnCandidates:
                raise UserError("--reference sampled is for candidates; for dialogues give seed or seed_without_c.")
            return None
        from sweet_rl.credit.critics import seed_of  # imports torch

        return self.reference_model_id or seed_of(self.critic)


def write_credit(settings: CreditSettings, records: RecordFile, path: str | Path, overwrite: bool = False) -> None:
    """Compute the credit of every record that has none in `path` yet. A call after an interruption continues.

    Each line is {id, turns}, as in turn_credit.py. Raises UserError before anything is written.
    """
    from sweet_rl.scoring.value_head import has_value_head

    if has_value_head(model_path(settings.critic)):
        raise UserError(
            f"--critic {settings.critic} has a value head, which gives a turn one value and its tokens none. Rank "
            "candidates with it (rank_best_of_n.py --critic_type value) and look at the ranked file."
        )
    seed = settings.reference_model(records.kind)
    kept = {name: value for name, value in vars(settings).items() if name != "token_budget"}
    folders = [model_input(name) for name in (settings.critic, seed) if name]
    inputs = [str(records.path), *filter(None, folders)]
    total = sum(1 for _ in records.scan())
    for name in filter(None, (settings.critic, seed)):
        check_loadable(model_path(name))
    with open_run(path, {**kept, "reference_model_id": seed, "limit": records.limit}, inputs, overwrite) as run:
        if run.complete:
            print(f"{path}: already complete")
            return
        scorer = _turn_credit(settings, seed, records.kind)
        todo = (record for _, record in records.scan() if record.id not in run.done)
        with progress_bar(total=total, initial=len(run.done), desc="credit", unit=" records") as bar:
            for group in iter(lambda: list(islice(todo, RECORDS_AT_ONCE)), []):
                score = scorer.of_trajectories if records.kind is Trajectory else scorer.of_candidates
                for record, turns in zip(group, score(group), strict=True):
                    run.write({"id": record.id, "turns": turns})
                bar.update(len(group))
        run.finish({"records": total})


def _turn_credit(settings: CreditSettings, seed: str | None, kind: type):
    from sweet_rl.chat import ChatFormat
    from sweet_rl.credit.log_ratio import load_scorer
    from sweet_rl.credit.turn_credit import TurnCredit

    chat = ChatFormat.from_pretrained(model_path(settings.critic))
    critic = load_scorer(model_path(settings.critic), settings.bf16, settings.token_budget)
    same = seed is not None and model_path(seed) == model_path(settings.critic)
    reference = critic if same else None if seed is None else load_scorer(
        model_path(seed), settings.bf16, settings.token_budget
    )  # fmt: skip
    reference_hint = settings.hint and settings.reference == "seed"
    template = settings.response_template if kind is Trajectory else None
    return TurnCredit(chat, critic, reference, settings.hint, reference_hint, settings.normalize, template)


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
