"""The log-ratio critic: a candidate's score is its advantage (equation 3 of the paper).

Pointwise information, plain or purified, is the log-ratio of one model with and without the reference solution.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sweet_rl.chat import ChatFormat
from sweet_rl.credit.advantage import advantage, by_token
from sweet_rl.credit.candidate_texts import check_token_logprobs, encoded_candidates, sampling_logprobs
from sweet_rl.credit.critics import CriticSettings
from sweet_rl.log_probs.rows import EncodedText
from sweet_rl.model_loading import check_loadable, model_path
from sweet_rl.records import TurnCandidates

logger = logging.getLogger(__name__)
VLLM_TURNS = 4096  # per call: an engine is started for the longest text of a call, and perhaps stopped for another one
Score = Callable[[Sequence[EncodedText]], list[np.ndarray]]
"""Texts -> for each text the log-probs [L] of its L trained tokens."""
LoadScorers = Callable[[Sequence[str | None], CriticSettings], "list[Score | None]"]
"""Model paths -> their scorers, None for None."""


TokenLogps = tuple[np.ndarray, "np.ndarray | Sequence[float] | float"]
"""What `advantage` compares: log-probs [L], and those of the reference."""


class TokenCritic:
    """A critic (`critics.Critic`) whose score adds up log-ratios of tokens.

    Args:
        chat: Chat format of the model.
        normalize, clip, top_tokens: Settings of `advantage`; kept as `aggregation`.
    """

    turns_per_call = 64
    calls_at_once = 1

    def __init__(self, chat: ChatFormat, normalize: str = "turn", clip: float | None = None, top_tokens: int = 5):
        self.chat, self.eos_text = chat, chat.eos_text
        self.aggregation = {"normalize": normalize, "clip": clip, "top_tokens": top_tokens}

    async def token_logps(self, records: Sequence[TurnCandidates]) -> list[list[TokenLogps]]:
        """For each record and candidate the log-probs that `advantage` compares."""
        raise NotImplementedError

    async def scores_by(
        self, records: Sequence[TurnCandidates], aggregations: Sequence[Mapping[str, Any]]
    ) -> list[list[list[float]]]:
        """For each of the aggregations (arguments of `advantage`) what `scores` gives with it."""
        found = await self.token_logps(records)
        return [[[advantage(*pair, **own) for pair in group] for group in found] for own in aggregations]

    async def scores(self, records: Sequence[TurnCandidates]) -> list[list[float]]:
        return (await self.scores_by(records, [self.aggregation]))[0]

    async def close(self) -> None:
        """Nothing to release."""


class LogRatioCritic(TokenCritic):
    """Scores candidates by the log-ratio of their tokens.

    Args:
        chat: Chat format of the critic.
        critic: log-probs under the critic.
        reference: log-probs under the reference model. None takes the log-probs with which the candidates were sampled,
            without the reference solution (as the released code does).
        hint: whether the critic's texts begin with the reference solution.
        reference_hint: whether the reference model's texts begin with the reference solution; default: as `hint`.
        purification: lambda, the weight at which log pi(a|c) - log pi(a) under the critic is subtracted, both without
            the dialogue.
        aggregation: normalize, clip, top_tokens, as of `TokenCritic`.

    Attributes:
        scorers: `critic` and `reference`.
        hint, reference_hint: Texts that show the reference solution, or None.
    """

    def __init__(
        self,
        chat: ChatFormat,
        critic: Score,
        reference: Score | None,
        *,
        hint: bool = True,
        reference_hint: bool | None = None,
        purification: float = 0.0,
        **aggregation: Any,
    ):
        super().__init__(chat, **aggregation)
        self.scorers, self.hint = (critic, reference), hint
        self.reference_hint = hint if reference_hint is None else reference_hint
        self._purification = purification

    @classmethod
    def load(cls, settings: CriticSettings, load: LoadScorers | None = None) -> LogRatioCritic:
        """Load the models, on the GPU if there is one. Raises UserError if one cannot be loaded.

        Args:
            load: makes the scorers; default: `load_scorers`.
        """
        seed_model = settings.seed_model
        if settings.critic_type == "log_ratio" and seed_model is None and settings.reference is None:
            logger.warning(
                "which model %s was trained from is not known (no manifest, no --reference_model_id), so the reference "
                "is the stored log-probs of sampling",
                settings.model_id,
            )
        path = model_path(settings.model_id)
        critic, reference = (load or load_scorers)([path, seed_model and model_path(seed_model)], settings)
        alone = settings.critic_type != "log_ratio"
        made = cls(
            ChatFormat.from_pretrained(path),
            critic,
            critic if alone else reference,
            hint=settings.hint,
            reference_hint=settings.hint and not alone and settings.reference != "seed_without_c",
            purification=settings.purification if settings.critic_type == "purified" else 0.0,
            **settings.aggregation,
        )
        if settings.engine == "vllm":
            made.turns_per_call = VLLM_TURNS
        return made

    async def token_logps(self, records: Sequence[TurnCandidates]) -> list[list[TokenLogps]]:
        return await asyncio.to_thread(self.logps, records)

    def logps(self, records: Sequence[TurnCandidates]) -> list[list[TokenLogps]]:
        """`token_logps` without an event loop."""
        score, score_reference = self.scorers
        shown = self._texts(records, self.hint)
        flat = [text for group in shown for text in group]
        if score_reference is None:
            normalize = self.aggregation["normalize"]
            if by_token(normalize, self.aggregation["clip"]):
                for record in records:
                    check_token_logprobs(record, self.chat)
            reference = [values for record in records for values in sampling_logprobs(record, normalize)]
        else:
            hidden = shown if self.reference_hint == self.hint else self._texts(records, self.reference_hint)
            reference = score_reference([text for group in hidden for text in group])
        critic = score(flat)
        if self._purification:
            alone = [*self._texts(records, True, dialogue=False), *self._texts(records, False, dialogue=False)]
            found = score([text for group in alone for text in group])
            by_c = zip(critic, found[: len(flat)], found[len(flat) :], strict=True)
            critic = [own - self._purification * (told - untold) for own, told, untold in by_c]
        pairs = zip(critic, reference, strict=True)
        return [[next(pairs) for _ in group] for group in shown]

    def _texts(self, records: Sequence[TurnCandidates], hint: bool, dialogue: bool = True) -> list[list[EncodedText]]:
        return [encoded_candidates(record, self.chat, hint, dialogue) for record in records]


def load_scorers(paths: Sequence[str | None], settings: CriticSettings) -> list[Score | None]:
    """A function from texts to log-probs for each model, None for None; equal paths share one."""
    given = list(dict.fromkeys(filter(None, paths)))
    for path in given:
        check_loadable(path)
    if settings.engine == "vllm":
        from sweet_rl.log_probs.vllm_logps import load_vllm_scorers

        loaded = dict(zip(given, load_vllm_scorers(given, settings.reduced), strict=True))
    else:
        loaded = {path: load_scorer(path, settings.reduced, settings.token_budget) for path in given}
    return [path and loaded[path] for path in paths]


def load_scorer(path: str, bf16: bool, token_budget: int) -> Score:
    """Load a frozen model, on the GPU if there is one, as a function from texts to log-probs.

    Args:
        bf16: load the weights in bfloat16 instead of float32.
        token_budget: tokens in one forward pass.
    """
    import torch

    from sweet_rl.log_probs.logps import score_texts
    from sweet_rl.log_probs.shared_prefix import share_prompts
    from sweet_rl.model_loading import load_frozen

    model = load_frozen(path, torch.bfloat16 if bf16 else torch.float32)
    share = share_prompts(model)
    return lambda texts: score_texts(model, texts, token_budget, share)
