"""The log-ratio critic: candidates scored by the advantage (PAPER step 4, equation 2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import numpy as np

from sweet_rl.chat import ChatFormat
from sweet_rl.credit.advantage import advantage
from sweet_rl.credit.encoded_candidates import encoded_candidates
from sweet_rl.errors import UserError
from sweet_rl.models.loadable import check_loadable
from sweet_rl.records import TurnCandidates
from sweet_rl.scoring.rows import EncodedText

Score = Callable[[Sequence[EncodedText]], list[np.ndarray]]  # texts -> log-probs of their trained tokens


class LogRatioCritic:
    """A of each candidate under a critic and its reference (see critics.Critic).

    critic, reference: log-probs of the candidates' tokens. Without a reference the sampling log-probs stored with
    the candidates take its place, which the actor gave without the reference solution (as released).
    """

    turns_per_call = 64
    calls_at_once = 1

    def __init__(
        self, chat: ChatFormat, critic: Score, reference: Score | None, hint: bool = True, normalize: str = "turn"
    ):
        self.chat, self.eos_text = chat, chat.eos_text
        self._critic, self._reference, self._hint, self._normalize = critic, reference, hint, normalize

    @classmethod
    def load(
        cls,
        critic_path: str,
        reference_path: str | None,
        hint: bool = True,
        normalize: str = "turn",
        bf16: bool = False,
        token_budget: int = 16384,
        engine: str = "auto",
    ) -> LogRatioCritic:
        """Both models in this process, on the GPU if there is one; with the engine "vllm" in vLLM. Raises UserError
        if one is not there."""
        for path in filter(None, (critic_path, reference_path)):
            check_loadable(path)
        chat = ChatFormat.from_pretrained(critic_path)
        if engine == "vllm":
            from sweet_rl.scoring.vllm_logps import load_vllm_scorers

            critic, reference = load_vllm_scorers([critic_path, reference_path], bf16)
        else:
            critic = load_scorer(critic_path, bf16, token_budget)
            reference = load_scorer(reference_path, bf16, token_budget) if reference_path else None
        return cls(chat, critic, reference, hint, normalize)

    async def scores(self, records: Sequence[TurnCandidates]) -> list[list[float]]:
        texts = [encoded_candidates(record, self.chat, self._hint) for record in records]
        flat = [text for group in texts for text in group]
        ends = np.cumsum([len(group) for group in texts])[:-1]
        theta = _regroup(await asyncio.to_thread(self._critic, flat), ends)  # dialogues go on while it computes
        if self._reference:
            other = _regroup(await asyncio.to_thread(self._reference, flat), ends)
        else:
            other = [_sampled(record) for record in records]
        return [
            [advantage(a, b, self._normalize) for a, b in zip(own, ref, strict=True)]
            for own, ref in zip(theta, other, strict=True)
        ]

    async def close(self) -> None:
        """Nothing to give back."""


def load_scorer(path: str, bf16: bool, token_budget: int) -> Score:
    """A frozen model, on the GPU if there is one, as the function that gives texts' log-probs."""
    import torch

    from sweet_rl.scoring.logps import score_texts
    from sweet_rl.scoring.shared_prefix import share_prompts
    from sweet_rl.scoring.weights import load_frozen

    model = load_frozen(path, torch.bfloat16 if bf16 else torch.float32)
    share = share_prompts(model)
    return lambda texts: score_texts(model, texts, token_budget, share)


def _regroup(values: list, ends: np.ndarray) -> list[list]:
    starts = [0, *ends.tolist()]
    return [values[a:b] for a, b in zip(starts, [*ends.tolist(), len(values)], strict=True)]


def _sampled(record: TurnCandidates) -> list:
    values = record.additional_reference_logprobs
    if values is None or any(isinstance(v, list) and not v for v in values):
        raise UserError(
            f"candidates {record.id!r}: no sampling log-probs (additional_reference_logprobs). "
            "Rank with --reference seed --reference_model_id MODEL."
        )
    return values
