"""What ranks a turn's candidates, behind one interface: the log-ratio critic, a value head, an LLM as a judge.

Ranking a file and acting with the best of N candidates both go through `Critic.scores`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sweet_rl.credit.advantage import order_by_score
from sweet_rl.errors import UserError
from sweet_rl.models.load import ENGINES, model_input, model_path
from sweet_rl.records import TurnCandidates
from sweet_rl.runs.manifest import DIRECTORY_MANIFEST
from sweet_rl.scoring.length_normalization import NORMALIZE

CRITIC_TYPES = ("log_ratio", "value", "judge")
REFERENCES = ("seed", "sampled")


class Critic(Protocol):
    """Scores candidates: within a turn, higher is better. Scores of different turns are not compared.

    Attributes:
        eos_text: text that ends a turn, for candidates whose file does not say it; None if not known.
        turns_per_call, calls_at_once: how it is best used: so many records a call, so many calls under way.
    """

    eos_text: str | None
    turns_per_call: int
    calls_at_once: int

    async def scores(self, records: Sequence[TurnCandidates]) -> list[list[float]]:
        """One score a candidate, in the order of `additional_outputs`. Raises UserError naming a record that
        cannot be scored, and ModelError where a server gave out."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class CriticSettings:
    """Which critic, and how it scores. Raises UserError where the settings contradict each other.

    model_id: the critic's (or the judge's) model. critic_type: log_ratio (equation 2), value (a model of
    train_value.py) or judge (an LLM asked for the better one of two, in a knockout). hint: whether it sees the
    reference solution.
    Log-ratio: reference is seed (`reference_model_id`, default: what the critic was trained from) or sampled (the
    log-probs that the candidates were sampled with); normalize as in advantage.py; bf16; token_budget; engine auto or
    transformers (a turn's candidates in one pass), or vllm (prompt log-probs).
    Value: bf16; token_budget.
    Judge: hostname, engine, prompt_path, api_key, seed (of brackets and drawn matches), calls_at_once.
    """

    model_id: str
    critic_type: str = "log_ratio"
    hint: bool = True
    reference: str = "seed"
    reference_model_id: str | None = None
    normalize: str = "turn"
    bf16: bool = False
    token_budget: int = 16384
    hostname: str | None = None
    engine: str = "auto"
    prompt_path: str = "judge.txt"
    api_key: str | None = dataclasses.field(default=None, repr=False)
    seed: int = 0
    calls_at_once: int = 64

    def __post_init__(self) -> None:
        if self.critic_type not in CRITIC_TYPES:
            raise UserError(f"--critic_type is {self.critic_type!r}; it must be one of {', '.join(CRITIC_TYPES)}.")
        if self.reference not in REFERENCES:
            raise UserError(f"--reference is {self.reference!r}; it must be seed or sampled.")
        if self.normalize not in NORMALIZE:
            raise UserError(f"--normalize is {self.normalize!r}; it must be one of {', '.join(NORMALIZE)}.")
        if self.reference == "sampled" and self.reference_model_id:
            raise UserError(
                "--reference sampled takes the stored log-probs; --reference_model_id is for --reference seed."
            )
        if self.critic_type == "value" and (self.reference == "sampled" or self.reference_model_id):
            raise UserError("--critic_type value needs no reference: leave out --reference and --reference_model_id.")
        if self.token_budget < 1:
            raise UserError(f"--token_budget is {self.token_budget}; it must be at least 1.")
        if self.engine not in ENGINES:
            raise UserError(f"--engine is {self.engine!r}; it must be one of {', '.join(ENGINES)}.")
        possible = {"log_ratio": ("auto", "transformers", "vllm"), "value": ("auto", "transformers")}
        if self.engine not in possible.get(self.critic_type, ENGINES):
            raise UserError(
                f"--engine is {self.engine}; for --critic_type {self.critic_type} it must be one of "
                f"{', '.join(possible[self.critic_type])}."
            )
        if self.hostname and self.critic_type != "judge":
            raise UserError("--hostname is the judge's server; a critic that scores log-probs runs in this process.")

    @property
    def seed_model(self) -> str | None:
        """The reference model of a log-ratio critic; None where the stored log-probs are the reference.

        Raises UserError if it is not given and the critic's manifest does not say what it was trained from.
        """
        if self.critic_type != "log_ratio" or self.reference == "sampled":
            return None
        return self.reference_model_id or seed_of(self.model_id)

    def that_matter(self) -> dict:
        """The settings that the scores depend on, for a run's manifest."""
        common = {"model_id": self.model_id, "critic_type": self.critic_type, "hint": self.hint}
        if self.critic_type == "judge":
            from sweet_rl.credit.judge import judge_prompt
            from sweet_rl.records import hash_rows

            return common | {"judge_prompt": hash_rows([judge_prompt(self.prompt_path)])[:16], "seed": self.seed}
        if self.critic_type == "value":
            return common | {"bf16": self.bf16}
        return common | {
            "reference": self.reference, "reference_model_id": self.seed_model, "normalize": self.normalize,
            "bf16": self.bf16, **({"engine": "vllm"} if self.engine == "vllm" else {}),
        }  # fmt: skip

    def inputs(self) -> list[str]:
        """The model folders that are read."""
        return [path for name in (self.model_id, self.seed_model) if name and (path := model_input(name))]


def load_critic(settings: CriticSettings) -> Critic:
    """The critic of these settings. Raises UserError if a model is not there."""
    if settings.critic_type == "judge":
        from sweet_rl.credit.judge import JudgeCritic, judge_prompt
        from sweet_rl.models.load import load_model

        model = load_model(
            settings.model_id, settings.engine, settings.hostname, tokenizer=None, api_key=settings.api_key
        )
        prompt = judge_prompt(settings.prompt_path)
        return JudgeCritic(model, prompt, settings.hint, settings.seed, settings.calls_at_once)
    if settings.critic_type == "value":
        from sweet_rl.credit.value_head import ValueHeadCritic
        from sweet_rl.scoring.vision import is_vision_model

        if is_vision_model(model_path(settings.model_id)):
            from sweet_rl.credit.picture_value import PictureValueCritic

            if not settings.hint:
                raise UserError("a vision critic ranks with the reference page's picture: leave out --no_prompt.")
            return PictureValueCritic.load(model_path(settings.model_id), settings.bf16, settings.token_budget)
        return ValueHeadCritic.load(
            model_path(settings.model_id), settings.hint, settings.bf16, settings.token_budget
        )
    from sweet_rl.credit.log_ratio import LogRatioCritic

    seed_model = settings.seed_model
    return LogRatioCritic.load(
        model_path(settings.model_id),
        seed_model and model_path(seed_model),
        settings.hint,
        settings.normalize,
        settings.bf16,
        settings.token_budget,
        settings.engine,
    )


def seed_of(model_id: str) -> str:
    """The model that a critic was trained from, by its manifest. Raises UserError if it does not say."""
    try:
        settings = json.loads((Path(model_id) / DIRECTORY_MANIFEST).read_text(encoding="utf-8"))["settings"]
        return settings["ref_pretrain"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"which model {model_id} was trained from is not known (no {DIRECTORY_MANIFEST} of train_dpo.py "
            "in it). Give --reference_model_id MODEL, or --reference sampled."
        ) from error


def ranked(record: TurnCandidates, scores: list[float], eos_text: str | None) -> TurnCandidates:
    """The record with judge_scores and judge_result (indices, best first), and the EOS noted if it was not."""
    eos_text = record.eos_text if eos_text is None else eos_text
    return dataclasses.replace(record, judge_scores=scores, judge_result=order_by_score(scores), eos_text=eos_text)
