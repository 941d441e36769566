"""Critics behind one interface: log-ratio, pointwise information, belief gain, value heads, and an LLM as a judge.

Ranking a file (step 5) and acting with the best of N candidates both call `Critic.scores`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, get_args, get_type_hints

from sweet_rl.cli import UNRECORDED
from sweet_rl.domains import Human
from sweet_rl.errors import UserError
from sweet_rl.log_probs.length_normalization import TurnNormalize
from sweet_rl.model_loading import model_input, model_path
from sweet_rl.records import TurnCandidates
from sweet_rl.runs.manifest import DIRECTORY_MANIFEST, read_manifest

if TYPE_CHECKING:
    from sweet_rl.credit.sweet_critic import LoadScorers

WITH_AND_WITHOUT_C = ("pmi", "purified", "belief_gain", "pmi_belief")
"""Critics that compare what one model predicts with the reference solution, or with a turn, and without."""
WITH_REPLIES = ("belief_gain", "pmi_belief")
"""Critics that can ask the human for a reply to each candidate."""


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
        critic_type: log_ratio (the advantage, equation 3 of the paper), pmi (the same by any one language model, with
            and without the reference solution), purified (pmi less what the solution predicts without the dialogue),
            belief_gain (how much likelier the turn makes the solution as the agent's answer), pmi_belief (the mean of
            pmi and belief_gain), value (a model of train_value.py) or judge (a language model is asked for the better
            one of two, in both orders; knockout over the candidates). docs/critics.md has their equations.
        reference: For log_ratio: seed (the model that the critic was trained from, which sees the reference solution
            too: the paper), seed_without_c (that model without the reference solution) or sampled (the log-probs of
            sampling, without the reference solution: as released). By default seed; sampled if that model is neither
            given nor named in the critic's manifest.
        reference_model_id: For log_ratio with a seed reference: that model. Default: the one in the critic's manifest.
        no_prompt: Do not show the reference solution to the critic.
        normalize: For critics that compare log-probs: turn or trajectory (mean over the tokens), none (sum),
            sqrt (sum over the square root of their number) or top (mean over the --top_tokens largest log-ratios,
            whatever their sign).
        top_tokens: For normalize top: number of tokens.
        clip: Clip the log-ratio of each token to this size first. Default: as it is.
        purification: For purified: lambda, the weight of what the solution predicts without the dialogue.
        reply: For belief_gain and pmi_belief: ask the human for a reply to each candidate. Without it an empty message
            stands for it.
        bf16: Load the weights of a log_ratio or value critic in bfloat16. Default: if there is a GPU.
        token_budget: Tokens in one forward pass of a log_ratio or value critic.
        hostname: Server of the judge (several separated by commas). Without one it runs in this process.
        engine: auto; transformers; vllm, which scores the whole text of each candidate; for a judge also openai (the
            hosted API).
        judge_prompt_path: Template with {dialogue}, {first}, {second} and optionally {ground_truth}.
        api_key_variable: Environment variable that holds the key of the judge's server.
        concurrency: Turns that the judge has in progress.
        seed: Of the judge's brackets, and of matches that it calls equal; of the human's replies.

    Raises:
        UserError: the settings contradict each other.
    """

    model_id: str
    critic_type: Literal["log_ratio", "pmi", "purified", "belief_gain", "pmi_belief", "value", "judge"] = "log_ratio"
    reference: Literal["seed", "seed_without_c", "sampled"] | None = None
    reference_model_id: str | None = None
    no_prompt: bool = False
    normalize: TurnNormalize = "turn"
    top_tokens: int = 5
    clip: float | None = None
    purification: float = 1.0
    reply: bool = False
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
        if self.reference not in (None, "seed", "seed_without_c", "sampled"):
            raise UserError(f"--reference is {self.reference!r}; it must be seed, seed_without_c or sampled.")
        if self.reference == "sampled" and self.reference_model_id:
            raise UserError(
                "--reference sampled takes the stored log-probs; --reference_model_id is for --reference seed."
            )
        if self.reference == "seed_without_c" and self.no_prompt:
            raise UserError("--no_prompt hides the solution from critic and reference: --reference seed says that.")
        given = self.reference_model_id or self.reference not in (None, "seed")
        if given and self.critic_type in (*WITH_AND_WITHOUT_C, "value"):
            raise UserError(
                f"--critic_type {self.critic_type} needs no reference: leave out --reference and --reference_model_id."
            )
        if self.critic_type in WITH_AND_WITHOUT_C and self.no_prompt:
            raise UserError(f"--critic_type {self.critic_type} is about the reference solution: leave out --no_prompt.")
        if self.clip is not None and not self.clip > 0:
            raise UserError(f"--clip is {self.clip}; it must be above 0.")
        if not 0 <= self.purification < float("inf"):
            raise UserError(f"--purification is {self.purification}; it must be a number from 0.")
        if self.reply and self.critic_type not in WITH_REPLIES:
            raise UserError(f"--reply is for --critic_type {' and '.join(WITH_REPLIES)}.")
        by_tokens = ("auto", "transformers", "vllm")
        possible = {"log_ratio": by_tokens, **dict.fromkeys(WITH_AND_WITHOUT_C, by_tokens)}
        possible["value"] = ("auto", "transformers")
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
        found = self.reference_model_id or seed_of(self.model_id)
        if found is None and self.reference is not None:
            raise UserError(
                f"which model {self.model_id} was trained from is not known (no {DIRECTORY_MANIFEST} of train_dpo.py "
                "in it). Give --reference_model_id MODEL, or --reference sampled."
            )
        return found

    @property
    def aggregation(self) -> dict[str, Any]:
        """The arguments of `advantage`."""
        return {"normalize": self.normalize, "clip": self.clip, "top_tokens": self.top_tokens}

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
        more: dict[str, Any] = {}
        if self.critic_type == "log_ratio":
            seed_model = self.seed_model
            reference = "sampled" if seed_model is None else self.reference or "seed"
            more = {"reference": reference, "reference_model_id": seed_model}
        elif self.critic_type == "purified":
            more = {"purification": self.purification}
        elif self.critic_type in WITH_REPLIES:
            more = {"reply": self.reply} | ({"seed": self.seed} if self.reply else {})
        more |= {"normalize": self.normalize, "bf16": self.reduced}
        chosen = {
            "top_tokens": self.top_tokens if self.normalize == "top" else None,
            "clip": self.clip,
            "engine": "vllm" if self.engine == "vllm" else None,
        }
        return common | more | {name: value for name, value in chosen.items() if value is not None}

    def inputs(self) -> list[str]:
        """The model folders that are read."""
        return [path for name in (self.model_id, self.seed_model) if name and (path := model_input(name))]


def load_critic(settings: CriticSettings, human: Human | None = None, load: LoadScorers | None = None) -> Critic:
    """Load the critic of these settings.

    Args:
        human: who is asked for replies to candidates, if the settings want that.
        load: loads the models of a critic that compares log-probs; default: `log_ratio.load_scorers`.

    Raises:
        UserError: a model is not there, or the human.
    """
    if settings.critic_type in WITH_REPLIES:
        from lab.critics.belief_gain import BeliefGainCritic, PmiBeliefCritic

        kind = BeliefGainCritic if settings.critic_type == "belief_gain" else PmiBeliefCritic
        return kind.load(settings, human, load)
    if settings.critic_type == "judge":
        from sweet_rl.credit.judge import JudgeCritic

        return JudgeCritic.load(settings)
    if settings.critic_type == "value":
        from sweet_rl.credit.value_critic import PictureValueCritic, ValueHeadCritic
        from sweet_rl.log_probs.vision import is_vision_model

        sees_pictures = is_vision_model(model_path(settings.model_id))
        return (PictureValueCritic if sees_pictures else ValueHeadCritic).load(settings)
    if settings.critic_type not in ("log_ratio", "pmi", "purified"):
        raise ValueError(f"load_critic has no branch for the critic {settings.critic_type}")
    from sweet_rl.credit.sweet_critic import LogRatioCritic

    return LogRatioCritic.load(settings, load)


def seed_of(model_id: str) -> str | None:
    """The model that a critic was trained from; None if no manifest says it. Raises UserError for a damaged one."""
    manifest = read_manifest(model_id) if Path(model_id).is_dir() else None
    return manifest and manifest["settings"].get("ref_pretrain")
