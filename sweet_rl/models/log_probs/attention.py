"""The flag `--attention`, of whatever computes log-probs in this process. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from sweet_rl.runs.cli import UNRECORDED

Attention = Literal["flex", "masked", "plain"]


@dataclass(frozen=True, kw_only=True)
class AttentionSettings:
    """How attention is computed; the results are equal up to rounding.

    Attributes:
        attention: Way to compute attention: flex (FlexAttention, compiled; it needs a GPU and a C compiler), masked (a
            mask of the row's length squared) or plain (each text by itself, its prompt too). By default flex on a GPU
            and no mask at all on a CPU; if that does not work, masked is taken with a warning. A way that is given and
            does not work is an error.
    """

    attention: Annotated[Attention | None, UNRECORDED] = None
