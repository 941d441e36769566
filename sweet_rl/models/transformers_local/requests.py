"""What the engine is asked for, what it returns, and a continuation in progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from sweet_rl.models.base import Sampling
from sweet_rl.models.transformers_local.kept_texts import Pairs


@dataclass(frozen=True)
class Generated:
    """One sampled continuation.

    Attributes:
        token_ids: The sampled ids, with the end-of-text token if it was produced.
        logprobs: One log-probability per id.
        finish_reason: "stop" or "length".
    """

    token_ids: list[int]
    logprobs: list[float]
    finish_reason: str


@dataclass
class Request:
    """A prompt to be continued `sampling.n` times.

    Attributes:
        ids: Token ids of the prompt.
        sampling: How tokens are drawn.
        deliver: Called once, with the list of Generated or an exception, in the thread that calls `step`.
        done: The finished continuations by sample number.
        known: Number of the prompt's first tokens whose keys and values are in `pairs`.
        pairs: Keys and values of these tokens (`KeptTexts`).
    """

    ids: list[int]
    sampling: Sampling
    deliver: Callable[[list[Generated] | Exception], None]
    done: dict[int, Generated] = field(default_factory=dict)
    known: int = 0
    pairs: Pairs = field(default_factory=list)

    @property
    def new_ids(self) -> list[int]:
        """The prompt's tokens that have to be computed."""
        return self.ids[self.known :]


class Row:
    """One continuation in progress.

    `uniforms` holds one random number per token, `group` the `context.rope_group` that its keys were computed in.
    """

    group: tuple[int, ...] = ()

    def __init__(self, request: Request, number: int, limit: int) -> None:
        self.request, self.number, self.limit = request, number, limit
        self.uniforms = np.random.Generator(np.random.PCG64(request.sampling.seed + number)).random(limit, np.float32)
        self.token_ids: list[int] = []
        self.logprobs: list[float] = []

    @property
    def length(self) -> int:
        """Prompt and sampled tokens."""
        return len(self.request.ids) + len(self.token_ids)
