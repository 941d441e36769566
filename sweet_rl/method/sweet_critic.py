"""The SWEET critic: a candidate's score is its advantage (equation 3 of the paper), a log-ratio of two models.

Pointwise information (PMI) is the same log-ratio of one model without training: log pi(a|o,c) - log pi(a|o), how much
likelier the reference solution makes a turn. It is not in the paper.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import numpy as np

from sweet_rl.method.advantage import TurnNormalize, advantage
from sweet_rl.method.candidate_texts import encoded_candidates, sampling_logprobs
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.models.settings import Attention, AttentionSettings, base_url, server_and_key
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import model_input, model_path
from sweet_rl.runs.cli import UNRECORDED, to_settings
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import DIRECTORY_MANIFEST, read_manifest
from sweet_rl.runs.records import TurnCandidates

if TYPE_CHECKING:  # openai takes half a second to import
    from sweet_rl.models.prompt_logprobs import PromptLogprobs

SERVED_TURNS = 32  # that a critic on a server scores at the same time
TokenScorer: TypeAlias = "Callable[[Sequence[EncodedText]], list[np.ndarray]] | PromptLogprobs"
"""Texts -> for each text the log-probs [L] of its L trained tokens: a model in this process, or one on a server."""
CriticAndReference = tuple[np.ndarray, "np.ndarray | Sequence[float] | float"]
"""What `advantage` compares: the log-probs [L] of the critic, and those of the reference."""


@dataclass(frozen=True)
class ScoringModel(AttentionSettings):
    """A language model that scores texts.

    Attributes:
        model_id: Model of the critic: directory or hub name.
        bf16: Load the weights in bfloat16. Default: yes on a GPU, no on a CPU.
        token_budget: Number of tokens in one forward pass.
    """

    model_id: str
    bf16: bool | None = None
    token_budget: Annotated[int, UNRECORDED] = 16384

    def __post_init__(self) -> None:
        if self.token_budget < 1:
            raise UserError(f"--token_budget is {self.token_budget}; it must be at least 1.")

    @property
    def reduced(self) -> bool:
        """`bf16`, or its default on this machine."""
        if self.bf16 is not None:
            return self.bf16
        if not any(Path(device).exists() for device in ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")):
            return False  # without torch, which takes seconds to import
        import torch

        return torch.cuda.is_available()

    def scored_by(self) -> list[str]:
        """Names of all models that score."""
        return [self.model_id]

    def inputs(self) -> list[str]:
        """The folders of the models that are on this machine."""
        return [path for name in self.scored_by() if (path := model_input(name))]

    def to_settings(self) -> dict[str, Any]:
        """The settings that the scores depend on."""
        return to_settings(self) | {"bf16": self.reduced}


@dataclass(frozen=True)
class PmiSettings(ScoringModel):
    """A model that gives log-probs of tokens, here or on a server, and how they become a score.

    Attributes:
        normalize: Score of a turn from the log-ratios of its tokens: turn (mean) or none (sum).
        hostname: vLLM server of the critic, which gives the log-probs: host, host:port or URL. A second one behind a
            comma is that of the reference model. Without one the critic runs in this process.
        tokenizer: Tokenizer of a critic on a server: folder or hub name; by default the model's.
        api_key_variable: Environment variable that holds the key of the critic's server. Default: OPENAI_API_KEY, which
            is sent to OpenAI's own API only.
    """

    normalize: TurnNormalize = "turn"
    hostname: Annotated[str | None, UNRECORDED] = None
    tokenizer: Annotated[str | None, UNRECORDED] = None
    api_key_variable: Annotated[str | None, UNRECORDED] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.servers()

    def servers(self) -> list[tuple[str, str | None]]:
        """The base URL and the key of each server. Raises UserError if one cannot be used."""
        hosts = self.hostname.split(",") if self.hostname else []
        return [(base_url(host), server_and_key(host, self.api_key_variable)[1]) for host in hosts]

    def to_settings(self) -> dict[str, Any]:
        return to_settings(self) if self.hostname else super().to_settings()


@dataclass(frozen=True)
class SweetSettings(PmiSettings):
    """The SWEET critic and its reference.

    Attributes:
        reference: Reference of the log-ratio: sampled (the log-probs of sampling, without the reference solution: as
            released), seed_without_c (the model that the critic was trained from, without the reference solution) or
            seed (that model, which sees the reference solution too: the paper). Default: sampled; seed_without_c if
            reference_model_id is given, and for dialogues that are finished, which have no log-probs of sampling.
        reference_model_id: Model of a seed reference. Default: the one in the critic's manifest.
        no_prompt: Do not show the reference solution to the critic.
    """

    reference: Literal["seed", "seed_without_c", "sampled"] | None = None
    reference_model_id: str | None = None
    no_prompt: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reference == "sampled" and self.reference_model_id:
            raise UserError(
                "--reference sampled takes the stored log-probs; --reference_model_id is for seed_without_c and seed."
            )

    @property
    def reference_kind(self) -> str:
        """`reference`, or its default."""
        if self.reference is not None:
            return self.reference
        if self.reference_model_id is None:
            return "sampled"
        return "seed" if self.no_prompt else "seed_without_c"

    @property
    def seed_model(self) -> str | None:
        """The reference model; None if the stored log-probs are the reference.

        Raises:
            UserError: A seed reference that is not given and that the critic's manifest does not name.
        """
        if self.reference_kind == "sampled":
            return None
        found = self.reference_model_id or seed_of(self.model_id)
        if found is None:
            raise UserError(
                f"which model {self.model_id} was trained from is not known (no {DIRECTORY_MANIFEST} of train_dpo.py "
                "in it). Give --reference_model_id MODEL, or --reference sampled."
            )
        return found

    def scored_by(self) -> list[str]:
        return [name for name in (self.model_id, self.seed_model) if name]

    def to_settings(self) -> dict[str, Any]:
        recorded = {"reference": self.reference_kind, "reference_model_id": self.seed_model}
        return super().to_settings() | recorded


class LogRatioCritic:
    """Scores candidates by the log-ratio of their tokens, their advantage (a `critics.Critic`).

    `hint` says whether the critic's texts begin with the reference solution, `reference_hint` (default: equal to
    `hint`) whether the reference's do. If `reference` is None, the log-probs with which the candidates were sampled are
    the reference, as in the released code; these did not see the solution.
    """

    turns_per_call = 64
    calls_at_once = 1

    def __init__(
        self,
        chat: ChatFormat,
        critic: TokenScorer,
        reference: TokenScorer | None,
        *,
        hint: bool = True,
        reference_hint: bool | None = None,
        normalize: TurnNormalize = "turn",
    ) -> None:
        self.chat, self.eos_text = chat, chat.eos_text
        self._critic, self._reference, self._normalize = critic, reference, normalize
        self._hint, self._reference_hint = hint, hint if reference_hint is None else reference_hint
        self._served = [model for model in (critic, reference) if model is not None and not callable(model)]
        if self._served:  # one turn per call, so that a failure costs only that turn
            self.turns_per_call, self.calls_at_once = 1, SERVED_TURNS

    async def scores(self, records: Sequence[TurnCandidates]) -> list[list[float]]:
        """The advantage of each candidate of each record."""
        return [[advantage(*pair, self._normalize) for pair in group] for group in await self.logps(records)]

    async def logps(self, records: Sequence[TurnCandidates]) -> list[list[CriticAndReference]]:
        """For each record and candidate the log-probs that `advantage` compares."""
        texts = self._texts(records, self._hint)
        if self._reference is None:
            reference: list = [values for record in records for values in sampling_logprobs(record, self._normalize)]
        else:
            same = self._reference_hint == self._hint
            other = texts if same else self._texts(records, self._reference_hint)
            reference = await scored(self._reference, [text for group in other for text in group])
        critic = await scored(self._critic, [text for group in texts for text in group])
        pairs = zip(critic, reference, strict=True)
        return [[next(pairs) for _ in group] for group in texts]

    async def token_credit(self, records: Sequence[TurnCandidates]) -> list[list[dict[str, Any]]]:
        """For each record and candidate its `advantage`, and lists over its tokens: `tokens` (their texts), and their
        log-probs under `critic` and `reference`. `reference` is missing if it is not known for the same tokens."""
        texts = self._texts(records, self._hint)
        groups = zip(texts, await self.logps(records), strict=True)
        return [[self._credit(text, *pair) for text, pair in zip(*group, strict=True)] for group in groups]

    def _credit(self, text: EncodedText, critic: np.ndarray, reference: Any) -> dict[str, Any]:
        credit = {
            "advantage": advantage(critic, reference, self._normalize),
            "tokens": token_texts(self.chat.tokenizer, text.ids[text.targets].tolist()),
            "critic": critic.tolist(),
        }
        if np.shape(reference) == np.shape(critic):
            credit["reference"] = np.asarray(reference).tolist()
        return credit

    async def close(self) -> None:
        """Close the connections to servers."""
        for model in self._served:
            await model.close()

    def _texts(self, records: Sequence[TurnCandidates], hint: bool) -> list[list[EncodedText]]:
        return [encoded_candidates(record, self.chat, hint) for record in records]


def load_sweet_critic(settings: SweetSettings) -> LogRatioCritic:
    """Load the models, on the GPU if there is one. Raises UserError for a reference with another vocabulary."""
    chat, models = load_models(settings)
    if settings.seed_model and model_path(settings.seed_model) != model_path(settings.model_id):
        chat.check_vocabulary(settings.seed_model, "--reference_model_id")
    hint, reference = not settings.no_prompt, models[1] if settings.seed_model else None
    reference_hint = hint and settings.reference_kind != "seed_without_c"
    return LogRatioCritic(
        chat, models[0], reference, hint=hint, reference_hint=reference_hint, normalize=settings.normalize
    )


def load_pmi(settings: PmiSettings) -> LogRatioCritic:
    """As `load_sweet_critic`, with one model, once with and once without the solution."""
    chat, (model,) = load_models(settings)
    return LogRatioCritic(chat, model, model, reference_hint=False, normalize=settings.normalize)


def seed_of(model_id: str) -> str | None:
    """The model that a critic was trained from; None if no manifest says it. Raises UserError for a damaged one."""
    manifest = read_manifest(model_id) if Path(model_id).is_dir() else None
    return manifest["settings"].get("ref_pretrain") if manifest else None


def load_models(settings: PmiSettings) -> tuple[ChatFormat, list[TokenScorer]]:
    """The chat format of a critic, and the log-probs under each of its models; equal names share one."""
    chat = ChatFormat.from_pretrained(model_path(settings.tokenizer or settings.model_id))
    servers, names = settings.servers(), list(dict.fromkeys(settings.scored_by()))
    if len(servers) > len(names):
        raise UserError(f"--hostname has {len(servers)} servers for {', '.join(names)}: give one, or one for each.")
    loaded: dict[str, TokenScorer] = {}
    for number, name in enumerate(names):
        if servers:
            from sweet_rl.models.prompt_logprobs import PromptLogprobs

            loaded[name] = PromptLogprobs(name, *servers[min(number, len(servers) - 1)])
        else:
            loaded[name] = load_scorer(model_path(name), settings.reduced, settings.token_budget, settings.attention)
    return chat, [loaded[name] for name in settings.scored_by()]


async def scored(model: TokenScorer, texts: Sequence[EncodedText]) -> list[np.ndarray]:
    """The log-probs of texts. A model in this process computes in a thread."""
    if callable(model):
        return await asyncio.to_thread(model, texts)
    return await model.score(texts)


def load_scorer(
    path: str, bf16: bool, token_budget: int, attention: Attention | None = None
) -> Callable[[Sequence[EncodedText]], list[np.ndarray]]:
    """Load a frozen model, on the GPU if there is one, as a function from texts to log-probs.

    Arguments as in `ScoringModel`. Raises UserError if the model, or the attention that is asked for, cannot be used.
    """
    import torch

    from sweet_rl.models.log_probs.attention import share_prompts
    from sweet_rl.models.log_probs.logps import score_texts
    from sweet_rl.models.weights import load_frozen

    model = load_frozen(path, torch.bfloat16 if bf16 else torch.float32)
    share = share_prompts(model, attention)
    return lambda texts: score_texts(model, texts, token_budget, share)


def token_texts(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """The text that each token adds; joined, they are the text of all `ids`.

    A character that consists of several tokens is the text of the last of them; the others have "".
    """
    texts: list[str] = []
    start, done = 0, 0  # decoded from `start` on, because tokenizers treat the first token of a text differently
    for end in range(1, len(ids) + 1):
        before = _decoded(tokenizer, ids[start:done])
        now = _decoded(tokenizer, ids[start:end])
        if now.endswith("\ufffd") and end < len(ids) and end - done < 8:
            texts.append("")
            continue
        texts.append(now[len(before) :])
        start, done = max(0, done - 4), end
    return texts


def _decoded(tokenizer: Any, ids: Sequence[int]) -> str:
    return tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
