"""The log-ratio critic: a candidate's score is its advantage (equation 2 of the paper)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

import numpy as np

from sweet_rl.chat import ChatFormat
from sweet_rl.credit.advantage import advantage
from sweet_rl.credit.candidate_texts import encoded_candidates, sampling_logprobs
from sweet_rl.credit.critics import CriticSettings
from sweet_rl.models.loadable import check_loadable
from sweet_rl.names import model_path
from sweet_rl.records import TurnCandidates
from sweet_rl.scoring.rows import EncodedText

logger = logging.getLogger(__name__)
VLLM_TURNS = 4096  # per call: an engine is started for the longest text of a call, and perhaps stopped for another one
Score = Callable[[Sequence[EncodedText]], list[np.ndarray]]
"""Texts -> for each text the log-probs [L] of its L trained tokens."""


class LogRatioCritic:
    """Scores candidates by their advantage (a `critics.Critic`).

    Args:
        chat: of the critic's tokenizer.
        critic: log-probs under the critic.
        reference: log-probs under the reference model, which sees the same texts. None takes the log-probs with which
            the candidates were sampled, without the reference solution (as the released code does).
        hint: whether the texts begin with the reference solution.
        normalize: as in `advantage`.
    """

    turns_per_call = 64
    calls_at_once = 1

    def __init__(
        self, chat: ChatFormat, critic: Score, reference: Score | None, hint: bool = True, normalize: str = "turn"
    ):
        self.chat, self.eos_text = chat, chat.eos_text
        self._critic, self._reference, self._hint, self._normalize = critic, reference, hint, normalize

    @classmethod
    def load(cls, settings: CriticSettings) -> LogRatioCritic:
        """Load both models, on the GPU if there is one. Raises UserError if one cannot be loaded."""
        seed_model = settings.seed_model
        if seed_model is None and settings.reference is None:
            logger.warning(
                "which model %s was trained from is not known (no manifest, no --reference_model_id), so the reference "
                "is the stored log-probs of sampling",
                settings.model_id,
            )
        paths = [model_path(settings.model_id), seed_model and model_path(seed_model)]
        for path in filter(None, paths):
            check_loadable(path)
        if settings.engine == "vllm":
            from sweet_rl.scoring.vllm_logps import load_vllm_scorers

            scorers = load_vllm_scorers(paths, settings.reduced)
        else:
            scorers = [path and load_scorer(path, settings.reduced, settings.token_budget) for path in paths]
        critic = cls(ChatFormat.from_pretrained(paths[0]), *scorers, settings.hint, settings.normalize)
        if settings.engine == "vllm":
            critic.turns_per_call = VLLM_TURNS
        return critic

    async def scores(self, records: Sequence[TurnCandidates]) -> list[list[float]]:
        texts = [encoded_candidates(record, self.chat, self._hint) for record in records]
        flat = [text for group in texts for text in group]
        if self._reference is None:
            reference = [values for record in records for values in sampling_logprobs(record, self._normalize)]
        else:
            reference = await asyncio.to_thread(self._reference, flat)
        critic = await asyncio.to_thread(self._critic, flat)
        pairs = zip(critic, reference, strict=True)
        return [[advantage(*next(pairs), self._normalize) for _ in group] for group in texts]

    async def close(self) -> None:
        """Nothing to release."""


def load_scorer(path: str, bf16: bool, token_budget: int) -> Score:
    """Load a frozen model, on the GPU if there is one, as a function from texts to log-probs.

    Args:
        bf16: load the weights in bfloat16 instead of float32.
        token_budget: tokens in one forward pass.
    """
    import torch

    from sweet_rl.scoring.load import load_frozen
    from sweet_rl.scoring.logps import score_texts
    from sweet_rl.scoring.shared_prefix import share_prompts

    model = load_frozen(path, torch.bfloat16 if bf16 else torch.float32)
    share = share_prompts(model)
    return lambda texts: score_texts(model, texts, token_budget, share)
