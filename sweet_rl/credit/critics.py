"""Critics behind one interface: the log-ratio critic, critics with a value head, and an LLM as a judge.

Ranking a file (step 5) and acting with the best of N candidates both call `Critic.scores`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, get_args, get_type_hints

from sweet_rl.cli import UNRECORDED
from sweet_rl.errors import UserError
from sweet_rl.models.load import model_input
from sweet_rl.names import model_path
from sweet_rl.records import TurnCandidates
from sweet_rl.runs.manifest import DIRECTORY_MANIFEST
from sweet_rl.scoring.length_normalization import Normalize


class Critic(Protocol):
    """Scores the candidates of turns. Within a turn, higher is better; scores of different turns are not comparable.

    Attributes:
        eos_text: text that ends a turn, for candidates whose file does not say it; None if it is not known.
        turns_per_call: number of records that one call of `scores` should get.
        calls_at_once: number of calls of `scores` that may be in progress.
    """

    eos_text: str | None
    turns_per_call: int
    calls_at_once: int

    async def scores(self, records: Sequence[TurnCandidates]) -> list[list[float]]:
        """For each record one score per candidate, in the order of `additional_outputs`.

        Raises:
            UserError: naming a record that cannot be scored.
            ModelError: a server failed.
        """
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class CriticSettings:
    """Which critic scores candidates, and how.

    Attributes:
        model_id: The critic: directory or hub name; for a judge also a server's name for it.
        critic_type: log_ratio (the advantage, equation 2 of the paper), value (a model of train_value.py) or judge (a
            language model is asked for the better one of two, in both orders; knockout over the candidates).
        reference: For log_ratio: seed (the model that the critic was trained from, which sees the reference solution
            too: the paper) or sampled (the log-probs of sampling, without the reference solution: as released). By
            default seed; sampled if that model is neither given nor named in the critic's manifest.
        reference_model_id: For log_ratio with reference seed: that model. Default: the one in the critic's manifest.
        no_prompt: Do not show the reference solution to the critic.
        normalize: For log_ratio: turn or trajectory (mean over the turn's tokens) or none (sum).
        bf16: Load the weights of a log_ratio or value critic in bfloat16. Default: if there is a GPU.
        token_budget: Tokens in one forward pass of a log_ratio or value critic.
        hostname: Server of the judge (several separated by commas). Without one it runs in this process.
        engine: auto; transformers; vllm, which scores the whole text of each candidate; for a judge also openai (the
            hosted API).
        judge_prompt_path: Template with {dialogue}, {first}, {second} and optionally {ground_truth}.
        api_key_variable: Environment variable that holds the key of the judge's server.
        concurrency: Turns that the judge has in progress.
        seed: Of the judge's brackets, and of matches that it calls equal.

    Raises:
        UserError: the settings contradict each other.
    """

    model_id: str
    critic_type: Literal["log_ratio", "value", "judge"] = "log_ratio"
    reference: Literal["seed", "sampled"] | None = None
    reference_model_id: str | None = None
    no_prompt: bool = False
    normalize: Normalize = "turn"
    bf16: bool | None = None
    token_budget: Annotated[int, UNRECORDED] = 16384
    hostname: Annotated[str | None, UNRECORDED] = None
    engine: Literal["auto", "transformers", "vllm", "openai"] = "auto"
    judge_prompt_path: str = "judge.txt"
    api_key_variable: Annotated[str, UNRECORDED] = "OPENAI_API_KEY"
    concurrency: Annotated[int, UNRECORDED] = 64
    seed: int = 0

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self)).items():
            value, choices = getattr(self, name), get_args(kind)
            if name in ("critic_type", "normalize", "engine") and value not in choices:
                raise UserError(f"--{name} is {value!r}; it must be one of {', '.join(choices)}.")
            if kind is int and name != "seed" and value < 1:
                raise UserError(f"--{name} is {value}; it must be at least 1.")
        if self.reference not in (None, "seed", "sampled"):
            raise UserError(f"--reference is {self.reference!r}; it must be seed or sampled.")
        if self.reference == "sampled" and self.reference_model_id:
            raise UserError(
                "--reference sampled takes the stored log-probs; --reference_model_id is for --reference seed."
            )
        if self.critic_type == "value" and (self.reference == "sampled" or self.reference_model_id):
            raise UserError("--critic_type value needs no reference: leave out --reference and --reference_model_id.")
        possible = {"log_ratio": ("auto", "transformers", "vllm"), "value": ("auto", "transformers")}
        if self.engine not in possible.get(self.critic_type, (self.engine,)):
            raise UserError(
                f"--engine is {self.engine}; for --critic_type {self.critic_type} it must be one of "
                f"{', '.join(possible[self.critic_type])}."
            )
        if self.hostname and self.critic_type != "judge":
            raise UserError("--hostname is the judge's server; a critic that scores log-probs runs in this process.")

    @property
    def hint(self) -> bool:
        """Whether the critic sees the reference solution."""
        return not self.no_prompt

    @property
    def seed_model(self) -> str | None:
        """The reference model of a log-ratio critic; None if the stored log-probs are the reference.

        Raises:
            UserError: with --reference seed: it is not given, and the critic's manifest does not name it.
        """
        if self.critic_type != "log_ratio" or self.reference == "sampled":
            return None
        try:
            return self.reference_model_id or seed_of(self.model_id)
        except UserError:
            if self.reference is None:
                return None
            raise

    @property
    def reduced(self) -> bool:
        """`bf16`, or its default on this machine."""
        if self.bf16 is None:
            import torch

            return torch.cuda.is_available()
        return self.bf16

    def to_settings(self) -> dict[str, Any]:
        """The settings that the scores depend on, for a run's manifest."""
        common = {"model_id": self.model_id, "critic_type": self.critic_type, "hint": self.hint}
        if self.critic_type == "judge":
            from sweet_rl.credit.judge import judge_prompt
            from sweet_rl.records import hash_rows

            prompt = hash_rows([judge_prompt(self.judge_prompt_path)])[:16]
            return common | {"judge_prompt": prompt, "seed": self.seed}
        if self.critic_type == "value":
            return common | {"bf16": self.reduced}
        seed_model = self.seed_model
        return common | {
            "reference": "seed" if seed_model else "sampled", "reference_model_id": seed_model,
            "normalize": self.normalize, "bf16": self.reduced,
            **({"engine": "vllm"} if self.engine == "vllm" else {}),
        }  # fmt: skip

    def inputs(self) -> list[str]:
        """The model folders that are read."""
        return [path for name in (self.model_id, self.seed_model) if name and (path := model_input(name))]


def load_critic(settings: CriticSettings) -> Critic:
    """Load the critic of these settings. Raises UserError if a model is not there."""
    if settings.critic_type == "judge":
        from sweet_rl.credit.judge import JudgeCritic

        return JudgeCritic.load(settings)
    if settings.critic_type == "value":
        from sweet_rl.credit.value_critics import PictureValueCritic, ValueHeadCritic
        from sweet_rl.scoring.vision import is_vision_model

        sees_pictures = is_vision_model(model_path(settings.model_id))
        return (PictureValueCritic if sees_pictures else ValueHeadCritic).load(settings)
    from sweet_rl.credit.log_ratio import LogRatioCritic

    return LogRatioCritic.load(settings)


def seed_of(model_id: str) -> str:
    """The model that a critic was trained from, by its manifest. Raises UserError if the manifest does not say it."""
    try:
        settings = json.loads((Path(model_id) / DIRECTORY_MANIFEST).read_text(encoding="utf-8"))["settings"]
        return settings["ref_pretrain"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"which model {model_id} was trained from is not known (no {DIRECTORY_MANIFEST} of train_dpo.py "
            "in it). Give --reference_model_id MODEL, or --reference sampled."
        ) from error
