"""A study of credit: the candidates of a file, scored by every combination of critic, reference and aggregation.

Each row of the study is what rank_best_of_n.py gives with the row's critic and settings. Here each model is loaded
once, and each log-prob is computed once for all rows that need it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from lab.critics.aggregations import Aggregation, scores_by
from lab.critics.asked_human import AskedHuman
from lab.critics.belief_gain import BeliefGainCritic
from lab.critics.pmi_belief import PmiBeliefCritic
from lab.critics.purified import PurifiedCritic
from sweet_rl.method.sweet_critic import LocalModel, LogRatioCritic, Score, load_scorer
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import model_input, model_path
from sweet_rl.runs.cli import to_settings
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import TurnCandidates, read_records
from sweet_rl.runs.run import Run, open_run
from sweet_rl.runs.step import StepSettings, run_step, write_results


@dataclass(frozen=True)
class StudySettings(LocalModel):
    """Which rows a study has. `model_id` is a language model, or a trained critic with `reference_model_id`.

    Attributes:
        reference_model_id: Model that the critic was trained from, for its three references. Without it, the rows are
            those of critics without training.
        top_tokens: Number of tokens of the aggregation top.
        clip: Size of a token's log-ratio in the clipped aggregations.
        purification: Values of lambda for purified, separated by commas.
        seed: Random seed of the human's replies.

    Raises:
        UserError: A value that is not possible.
    """

    reference_model_id: str | None = None
    top_tokens: int = 5
    clip: float = 1.0
    purification: str = "0.5,1"
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.aggregations()
        self.weights()

    def models(self) -> list[str]:
        return [name for name in (self.model_id, self.reference_model_id) if name]

    def aggregations(self) -> dict[str, Aggregation]:
        """Each aggregation by name."""
        return {
            "mean": Aggregation("turn"),
            "sum": Aggregation("none"),
            "sqrt": Aggregation("sqrt"),
            "top": Aggregation("top", self.top_tokens),
            "clipped": Aggregation("turn", clip=self.clip),
            "clipped sum": Aggregation("none", clip=self.clip),
        }

    def weights(self) -> list[float]:
        """The values of lambda. Raises UserError if one is no number."""
        try:
            return [float(text) for text in self.purification.split(",")]
        except ValueError as error:
            raise UserError(f"--purification is {self.purification!r}; expected numbers: 0.5,1") from error


@dataclass(frozen=True)
class Studied:
    """A critic of a study.

    Attributes:
        critic: The critic; it has `logps`.
        critic_type: Its `--critic_type`.
        settings: Its `--critic_settings`, without the models, the human and the aggregation.
    """

    critic: Any
    critic_type: str
    settings: dict[str, Any]

    def flags(self, aggregation: Aggregation) -> dict[str, Any]:
        """The critic with an aggregation, as flags of rank_best_of_n.py."""
        if aggregation in (Aggregation("turn"), Aggregation("none")):
            settings = {**self.settings, "normalize": aggregation.normalize}
            return {"critic_type": self.critic_type, "critic_settings": settings}
        own = {name: value for name, value in vars(aggregation).items() if value != getattr(Aggregation(), name)}
        inner = {"critic_type": self.critic_type, "critic_settings": self.settings}
        return {"critic_type": "lab/critics/aggregations.py", "critic_settings": {**inner, **own}}


def study_file(
    study: StudySettings, asked: AskedHuman, input_path: str, output_path: str, step: StepSettings | None = None
) -> dict[str, int]:
    """Score every record of a file by every row. A killed run continues with the same call.

    The output has the records without their tokens, and in `scores` for each row one score per candidate. The manifest
    has the flags of each row.

    Args:
        study: The rows.
        asked: Human who replies to candidates; with one there are rows of critics that hear the reply.
        input_path: Candidates.
        output_path: The records with `scores`.
        step: Part of the input.

    Returns:
        The summary: turns, rows.

    Raises:
        UserError: A record or model cannot be used.
    """
    step = step or StepSettings()
    records = read_records(input_path, TurnCandidates, step.limit)
    if asked.env_model:
        asked.domain.check([record.task for record in records if record.task], input_path, asked.env_model)
    scorers = RememberingScorers(study)
    human = asked.make()
    critics = studied_critics(study, scorers, human)
    aggregations = study.aggregations()
    rows = {
        f"{name}, {how}": studied.flags(aggregation)
        for name, studied in critics.items()
        for how, aggregation in aggregations.items()
    }

    async def scored(chunk: list[TurnCandidates]) -> list[dict]:
        scores = await all_scores(critics, aggregations, chunk)
        scorers.forget()
        kept = [replace(one, additional_reference_logprobs=None, additional_token_ids=None) for one in chunk]
        return [record.to_dict() | {"scores": own} for record, own in zip(kept, scores, strict=True)]

    async def work(run: Run) -> dict[str, int]:
        waiting = iter([record for record in records if record.id not in run.done])
        chunks = iter(lambda: list(islice(waiting, LogRatioCritic.turns_per_call)), [])
        try:
            await write_results(run, chunks, scored, 1, len(records), "turn")
        finally:
            model = getattr(human, "model", None)
            if model is not None:
                await model.close()
        return {"turns": len(records), "rows": len(rows)}

    settings = {**to_settings(study), "bf16": study.reduced, "rows": rows, "limit": step.limit}
    settings["human"] = asked.identity()
    inputs = [model_input(model) for model in study.models()]
    return run_step(open_run(output_path, settings, [input_path, *inputs], step.overwrite), work)


def studied_critics(study: StudySettings, scorers: RememberingScorers, human: Any) -> dict[str, Studied]:
    """Each critic of a study by name.

    Left out are the untrained model against itself, whose scores are all 0, and against itself without c: pmi.
    """
    chat = ChatFormat.from_pretrained(model_path(study.model_id))
    score = scorers[study.model_id]

    def log_ratio(reference: str, model: Score | None, reference_hint: bool) -> Studied:
        critic = LogRatioCritic(chat, score, model, reference_hint=reference_hint)
        return Studied(critic, "log_ratio", {"reference": reference})

    if study.reference_model_id:
        seed = scorers[study.reference_model_id]
        return {
            "trained, seed reference": log_ratio("seed", seed, True),
            "trained, seed reference without c": log_ratio("seed_without_c", seed, False),
            "trained, sampling reference": log_ratio("sampled", None, True),
        }
    pmi = LogRatioCritic(chat, score, score, reference_hint=False)
    found = {"untrained, sampling reference": log_ratio("sampled", None, True), "pmi": Studied(pmi, "pmi", {})}
    for weight in study.weights():
        purified = PurifiedCritic(chat, score, weight)
        settings = {"purification": weight}
        found[f"purified {weight:g}"] = Studied(purified, "lab/critics/purified.py", settings)
    found["belief gain"] = Studied(BeliefGainCritic(chat, score), "lab/critics/belief_gain.py", {})
    if human is not None:
        gain, both = (kind(chat, score, human, seed=study.seed) for kind in (BeliefGainCritic, PmiBeliefCritic))
        found["belief gain with reply"] = Studied(gain, "lab/critics/belief_gain.py", {"seed": study.seed})
        found["pmi and belief gain with reply"] = Studied(both, "lab/critics/pmi_belief.py", {"seed": study.seed})
    return found


class RememberingScorers:
    """The scorers of a study's models by name, loaded once; they compute no text twice until `forget` is called.

    Args:
        settings: The models, their precision and their token budget.
    """

    def __init__(self, settings: LocalModel):
        self._settings = settings
        self._scorers: dict[str, Score] = {}
        self._known: dict[str, dict[bytes, np.ndarray]] = {}

    def __getitem__(self, model: str) -> Score:
        if model not in self._scorers:
            score = load_scorer(
                model_path(model), self._settings.reduced, self._settings.token_budget, self._settings.attention
            )
            known = self._known[model] = {}
            self._scorers[model] = _remembering(score, known)
        return self._scorers[model]

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


async def all_scores(
    critics: Mapping[str, Studied], aggregations: Mapping[str, Aggregation], records: Sequence[TurnCandidates]
) -> list[dict[str, list[float]]]:
    """For each record the scores of its candidates by each row `critic, aggregation`."""
    found: list[dict[str, list[float]]] = [{} for _ in records]
    for name, studied in critics.items():
        by_aggregation = await scores_by(studied.critic, records, list(aggregations.values()))
        for how, scores in zip(aggregations, by_aggregation, strict=True):
            for row, own in zip(found, scores, strict=True):
                row[f"{name}, {how}"] = own
    return found
