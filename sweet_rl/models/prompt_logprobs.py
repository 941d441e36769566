"""Log-probs of texts under a model on a vLLM server: the `prompt_logprobs` of /completions. Needs no torch here."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

from sweet_rl.models.base import ModelError
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.models.server import Server
from sweet_rl.runs.errors import UserError

LEAST = -9999.0  # what vLLM writes for minus infinity
ROUNDING = 1e-3  # by which the log-prob of a certain token may be above 0
CALLS = 64  # at a time, because the logits of prompts need much memory


class PromptLogprobs:
    """Scores texts by their trained tokens. Texts are sent as token ids, equal ones once.

    `server_settings` are further arguments of `Server`.
    """

    def __init__(self, model: str, hostname: str, api_key: str | None = None, **server_settings: Any) -> None:
        self.model = model
        self.server = Server(hostname, api_key, **{"concurrency": CALLS, **server_settings})

    async def score(self, texts: Sequence[EncodedText]) -> list[np.ndarray]:
        """Return the log-probs of each text's trained tokens, float32 [n_i].

        Raises:
            UserError: The server has not the model, or returns no such log-probs.
            ModelError: A text has none: its server failed, it is too long, or a log-prob is null, NaN or infinite.
        """
        await self.server.check(self.model)
        distinct = {text.key: text for text in texts}
        calls = [asyncio.ensure_future(self._logprobs(text)) for text in distinct.values()]
        try:
            logps = dict(zip(distinct, await asyncio.gather(*calls), strict=True))
        finally:
            for call in calls:
                call.cancel()
        return [logps[text.key] for text in texts]

    async def close(self) -> None:
        """Close the connections to the server."""
        await self.server.close()

    async def _logprobs(self, text: EncodedText) -> np.ndarray:
        """The log-probs of a text's trained tokens. A ModelError of kind `logprobs` concerns this text only."""
        body = {"model": self.model, "prompt": text.ids.tolist(), "max_tokens": 1, "temperature": 0.0}
        answer = await self.server.post("/completions", body | {"prompt_logprobs": 0})  # 0: none of other tokens
        (choice,) = answer.get("choices") or [{}]
        tokens = choice.get("prompt_logprobs")
        if tokens is None:
            raise UserError(f"the server of {self.model} gives no prompt_logprobs. Only vLLM is known to return them.")
        if len(tokens) != len(text):
            raise ModelError("logprobs", f"prompt_logprobs: {len(tokens)} for {len(text)} tokens.")
        values = []
        for place in text.targets:
            entry = (tokens[place] or {}).get(str(text.ids[place])) or {}  # by token id
            value = entry.get("logprob")
            if not isinstance(value, int | float) or not LEAST < value <= ROUNDING:  # NaN is not
                raise ModelError(
                    "logprobs",
                    f"prompt_logprobs: token {place} has {value}, which is no log-prob. If it is above 0, start the "
                    "server with --logprobs-mode raw_logprobs.",
                )
            values.append(value)
        return np.asarray(values, dtype=np.float32)
