"""Settings of a critic that scores texts by a language model in this process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from sweet_rl.models.log_probs.attention import AttentionSettings
from sweet_rl.runs.cli import UNRECORDED, to_settings
from sweet_rl.runs.errors import UserError


@dataclass(frozen=True)
class LocalModel(AttentionSettings):
    """A language model that scores texts in this process.

    Attributes:
        model_id: Model of the critic: directory or hub name.
        bf16: Load the weights in bfloat16. Default: if there is a GPU.
        token_budget: Number of tokens in one forward pass.

    Raises:
        UserError: A token budget below 1.
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
        if self.bf16 is None:
            import torch

            return torch.cuda.is_available()
        return self.bf16

    def models(self) -> list[str]:
        """Names of the models that are loaded."""
        return [self.model_id]

    def to_settings(self) -> dict[str, Any]:
        """The settings that the scores depend on."""
        return to_settings(self) | {"bf16": self.reduced}
