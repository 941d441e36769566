"""A study of credit: the candidates of a file, scored by every combination of critic, reference and aggregation.

Each row of the study is what rank_best_of_n.py gives with the row's flags. Here each log-prob is computed once for all
rows that need it.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any

import numpy as np

from lab.critics.asked_human import AskedHuman
from sweet_rl.cli import UNRECORDED
from sweet_rl.credit.critics import CriticSettings, load_critic
from sweet_rl.credit.ranking import human_setting
from sweet_rl.credit.sweet_critic import LoadScorers, Score, TokenCritic, load_scorers
from sweet_rl.errors import UserError
from sweet_rl.log_probs.rows import EncodedText
from sweet_rl.progress import progress_bar
from sweet_rl.records import TurnCandidates, read_records
from sweet_rl.runs.run import open_run


@dataclass(frozen=True)
class StudySettings:
    """Which rows a study has.

    Attributes:
        model_id: A language model, for the critics that need no training; with --reference_model_id a trained critic.
        reference_model_id: The model that the critic was trained from, for its three references. Without it, the rows
            are those of critics without training.
        top_tokens: k of the aggregation "top".
        clip: Size of a token's log-ratio in the clipped aggregations.
        purification: Values of lambda for purified, separated by commas.
        reply: Also belief gain with the human's reply, and its mean with pmi.
        bf16: Load the weights in bfloat16. Default: if there is a GPU.
        token_budget: Tokens in one forward pass.
        seed: Of the human's replies.

    Raises:
        UserError: --purification is not a list of numbers.
    """

    model_id: str
    reference_model_id: str | None = None
    top_tokens: int = 5
    clip: float = 1.0
    purification: str = "0.5,1"
    reply: bool = False
    bf16: bool | None = None
    token_budget: Annotated[int, UNRECORDED] = 16384
    seed: int = 0

    def __post_init__(self) -> None:
        self.rows()

    def aggregations(self) -> dict[str, dict[str, Any]]:
        """Settings of each aggregation by name."""
        return {
            "mean": {"normalize": "turn"},
            "sum": {"normalize": "none"},
            "sqrt": {"normalize": "sqrt"},
            "top": {"normalize": "top", "top_tokens": self.top_tokens},
            "clipped": {"normalize": "turn", "clip": self.clip},
            "clipped sum": {"normalize": "none", "clip": self.clip},
        }

    def critics(self) -> dict[str, CriticSettings]:
        """Each critic by name, with the first aggregation.

        Left out are the untrained model against itself, whose scores are all 0, and against itself without c: pmi.
        """
        if self.reference_model_id:
            model = {"reference_model_id": self.reference_model_id}
            found: dict[str, dict[str, Any]] = {
                "trained, seed reference": {"reference": "seed", **model},
                "trained, seed reference without c": {"reference": "seed_without_c", **model},
                "trained, sampling reference": {"reference": "sampled"},
            }
        else:
            found = {"untrained, sampling reference": {"reference": "sampled"}, "pmi": {"critic_type": "pmi"}}
            for text in self.purification.split(","):
                try:
                    weight = float(text)
                except ValueError as error:
                    raise UserError(f"--purification is {self.purification!r}; expected numbers: 0.5,1") from error
                found[f"purified {weight:g}"] = {"critic_type": "purified", "purification": weight}
            found["belief gain"] = {"critic_type": "belief_gain"}
            if self.reply:
                found["belief gain with reply"] = {"critic_type": "belief_gain", "reply": True}
                found["pmi and belief gain with reply"] = {"critic_type": "pmi_belief", "reply": True}
        common = {"bf16": self.bf16, "token_budget": self.token_budget, "seed": self.seed}
        return {name: CriticSettings(self.model_id, **own, **common) for name, own in found.items()}

    def rows(self) -> dict[str, CriticSettings]:
        """The settings of rank_best_of_n.py for each row, named `critic, aggregation`."""
        return {
            f"{critic}, {name}": dataclasses.replace(settings, **own)
            for critic, settings in self.critics().items()
            for name, own in self.aggregations().items()
        }


def study_file(
    study: StudySettings,
    input_path: str,
    output_path: str,
    limit: int | None = None,
    overwrite: bool = False,
    human: AskedHuman | None = None,
) -> dict[str, int]:
    """Score every record of a file by every row. A killed run continues with the same call.

    The output has the records without their tokens, and in `scores` for each row one score per candidate. The manifest
    has the flags of each row. Arguments are the flags of study_credit.py; `human` replies to candidates if the study
    has such rows. Returns the summary: turns, rows. Raises UserError for a record or model that cannot be used.
    """
    records = list(read_records(input_path, TurnCandidates, limit))
    asked = human_setting(study.reply, human, records, input_path)
    rows, critics = study.rows(), study.critics()
    first = next(iter(critics.values()))
    settings: dict[str, Any] = {
        "rows": {name: flags(row) for name, row in rows.items()}, "model_id": study.model_id,
        "reference_model_id": study.reference_model_id, "bf16": first.reduced, "limit": limit,
        "seed": study.seed, **asked,
    }  # fmt: skip
    inputs = {path: None for critic in critics.values() for path in critic.inputs()}
    with open_run(output_path, settings, [input_path, *inputs], overwrite) as run:
        if run.complete:
            print(f"{output_path}: already complete")
            return run.summary or {}
        asyncio.run(_study(study, [record for record in records if record.id not in run.done], run.write, human))
        summary = {"turns": len(records), "rows": len(rows)}
        run.finish(summary)
        print(f"{output_path}: {summary['turns']} turns scored by {summary['rows']} rows")
        return summary


def flags(settings: CriticSettings) -> dict[str, Any]:
    """The flags of rank_best_of_n.py that make a row, if they are not at their default.

    Models, precision and seed are those of the study.
    """
    left_out = ("model_id", "reference_model_id", "bf16", "token_budget", "seed")
    own = [field for field in dataclasses.fields(settings) if field.name not in left_out]
    return {field.name: value for field in own if (value := getattr(settings, field.name)) != field.default}


class RememberingScorers:
    """Loads scorers (a `log_ratio.LoadScorers`) that compute no text twice until `forget` is called.

    Args:
        load: loads a scorer that computes.
    """

    def __init__(self, load: LoadScorers = load_scorers):
        self._load, self._scorers, self._known = load, {}, {}

    def __call__(self, paths: Sequence[str | None], settings: CriticSettings) -> list[Score | None]:
        for path in paths:
            if path is not None and path not in self._scorers:
                (scorer,) = self._load([path], settings)
                known: dict[bytes, np.ndarray] = {}
                self._known[path], self._scorers[path] = known, _remembering(scorer, known)
        return [path and self._scorers[path] for path in paths]

    def forget(self) -> None:
        """Drop the log-probs that were computed."""
        for known in self._known.values():
            known.clear()


def _remembering(score: Score, known: dict[bytes, np.ndarray]) -> Score:
    def scored(texts: Sequence[EncodedText]) -> list[np.ndarray]:
        new = {text.key: text for text in texts if text.key not in known}
        if new:
            known.update(zip(new, score(list(new.values())), strict=True))
        return [known[text.key] for text in texts]

    return scored


async def _study(
    study: StudySettings, todo: Sequence[TurnCandidates], write: Callable[[dict], None], human: AskedHuman | None
) -> None:
    scorers, player = RememberingScorers(), human and human.make()
    critics = {name: load_critic(settings, player, scorers) for name, settings in study.critics().items()}
    waiting = iter(todo)
    try:
        with progress_bar(total=len(todo), desc="turns scored") as bar:
            for chunk in iter(lambda: list(islice(waiting, TokenCritic.turns_per_call)), []):
                scores = await all_scores(critics, study.aggregations(), chunk)
                scorers.forget()
                for record, own in zip(chunk, scores, strict=True):
                    kept = dataclasses.replace(record, additional_reference_logprobs=None, additional_token_ids=None)
                    write(kept.to_dict() | {"scores": own})
                bar.update(len(chunk))
    finally:
        if (model := getattr(player, "model", None)) is not None:
            await model.close()


async def all_scores(
    critics: Mapping[str, TokenCritic],
    aggregations: Mapping[str, Mapping[str, Any]],
    records: Sequence[TurnCandidates],
) -> list[dict[str, list[float]]]:
    """For each record the scores of its candidates by each row `critic, aggregation`."""
    found: list[dict[str, list[float]]] = [{} for _ in records]
    for name, critic in critics.items():
        by_aggregation = await critic.scores_by(records, list(aggregations.values()))
        for aggregation, scores in zip(aggregations, by_aggregation, strict=True):
            for row, own in zip(found, scores, strict=True):
                row[f"{name}, {aggregation}"] = own
    return found
