"""The critic with a regression head: candidates scored by the value of their turn (the paper's ablation)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sweet_rl.chat import ChatFormat
from sweet_rl.credit.encoded_candidates import encoded_candidates
from sweet_rl.records import TurnCandidates
from sweet_rl.scoring.rows import EncodedText

Value = Callable[[Sequence[EncodedText]], list[float]]


class ValueHeadCritic:
    """The value of each candidate after its prompt, by a model of train_value.py (see critics.Critic)."""

    turns_per_call = 64
    calls_at_once = 1

    def __init__(self, chat: ChatFormat, value: Value, hint: bool = True):
        self.chat, self.eos_text = chat, chat.eos_text
        self._value, self._hint = value, hint

    @classmethod
    def load(cls, path: str, hint: bool = True, bf16: bool = False, token_budget: int = 16384) -> ValueHeadCritic:
        """The model in this process, on the GPU if there is one. Raises UserError without a value head."""
        import torch

        from sweet_rl.scoring.shared_prefix import share_prompts
        from sweet_rl.scoring.value_head import load_value_model, value_texts

        model = load_value_model(path, torch.bfloat16 if bf16 else torch.float32)
        share = share_prompts(model)
        return cls(ChatFormat.from_pretrained(path), lambda texts: value_texts(model, texts, token_budget, share), hint)

    async def scores(self, records: Sequence[TurnCandidates]) -> list[list[float]]:
        texts = [encoded_candidates(record, self.chat, self._hint) for record in records]
        values = iter(self._value([text for group in texts for text in group]))
        return [[next(values) for _ in group] for group in texts]

    async def close(self) -> None:
        """Nothing to give back."""
