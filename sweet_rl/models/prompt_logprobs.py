"""Log-probs of texts under a model on a vLLM server: the `prompt_logprobs` of /completions. Needs no torch here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sweet_rl.models.base import ModelError
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.models.servers import Server, Servers
from sweet_rl.runs.errors import UserError

LEAST = -9999.0  # what vLLM writes for minus infinity
ROUNDING = 1e-3  # above 0, of the log-prob of a token that is certain
CALLS = 64  # in progress on one server, whose memory for the logits of prompts is small
TRIAL = EncodedText.build([0, 0], [False, True], "a trial")


class PromptLogprobs:
    """Scores texts by their trained tokens. Texts are sent as token ids, equal ones once.

    Args:
        model: Name under which the servers know the model.
        hostnames: Their hosts or base URLs. Those that list other models only are left out.
        api_key: Bearer token; local servers need none.
        server_settings: Further arguments of `Servers`.

    Raises:
        UserError: A hostname is no server.
    """

    def __init__(
        self, model: str, hostnames: Sequence[str], api_key: str | None = None, **server_settings: Any
    ) -> None:
        self.model = model
        self.servers = Servers(hostnames, api_key, **{"concurrency": CALLS, **server_settings})
        self._checked: asyncio.Task[None] | None = None

    async def score(self, texts: Sequence[EncodedText]) -> list[np.ndarray]:
        """Return the log-probs of each text's trained tokens, float32 [n_i].

        Raises:
            UserError: No server has the model or returns such log-probs.
            ModelError: A text has none: its server failed, it is too long, or a log-prob is null, NaN or infinite.
        """
        if self._checked is None:
            self._checked = asyncio.ensure_future(self._check())
        await asyncio.shield(self._checked)
        asked = {text.key: text for text in texts}
        calls = [asyncio.ensure_future(self._ask(text, _read)) for text in asked.values()]
        try:
            found = dict(zip(asked, await asyncio.gather(*calls), strict=True))
        finally:
            for call in calls:
                call.cancel()
        return [found[text.key] for text in texts]

    async def close(self) -> None:
        """Close the connections."""
        await self.servers.close()

    async def _check(self) -> None:
        """Keep the servers that have the model, and ask one of them for the log-probs of a text as a trial."""
        servers = self.servers.all
        lists = await asyncio.gather(*map(self._listed, servers))
        self.servers.all = [one for one, names in zip(servers, lists, strict=True) if isinstance(names, list)]
        if not self.servers.all:
            found = "; ".join(f"{one.url}: {names}" for one, names in zip(servers, lists, strict=True))
            raise UserError(f"no server has the model {self.model!r} ({found}). Start one: `vllm serve {self.model}`.")
        try:
            await self._ask(TRIAL, _entries)
        except ModelError as error:
            if error.kind in ("auth", "refused", "logprobs"):
                raise UserError(f"{self.servers.all[0].url} gives no log-probs of a prompt: {error}") from error

    async def _listed(self, server: Server) -> list[str] | str:
        """The names that a server lists, if one of them or none is the model's; else what is wrong."""
        try:
            names = await self.servers.models(server)
        except ModelError as error:
            return str(error)
        return names if not names or self.model in names else f"it has {', '.join(names[:5])}"

    async def _ask(self, text: EncodedText, read: Callable[[dict[str, Any], EncodedText], Any]) -> Any:
        body = {"model": self.model, "prompt": text.ids.tolist(), "max_tokens": 1, "temperature": 0.0}
        body["prompt_logprobs"] = 0  # that of the token alone
        return await self.servers.call("/completions", body, lambda answer: read(answer, text))


def _entries(answer: dict[str, Any], text: EncodedText) -> list[Any]:
    """The entry of each token of a text. Raises ModelError if there is not one for each."""
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    tokens = choice.get("prompt_logprobs")
    if not isinstance(tokens, list) or len(tokens) != len(text):
        found = f"{len(tokens)} for {len(text)} tokens" if isinstance(tokens, list) else "none"
        raise ModelError("logprobs", f"prompt_logprobs: {found}. Only vLLM is known to return them.")
    return tokens


def _read(answer: dict[str, Any], text: EncodedText) -> np.ndarray:
    """The log-probs of a text's trained tokens. A ModelError of kind `logprobs` is of this text, not of the server."""
    tokens = _entries(answer, text)
    values = [_value(tokens[place], text.ids[place]) for place in text.targets]
    for place, value in zip(text.targets, values, strict=True):
        if isinstance(value, float) and LEAST < value <= ROUNDING:  # NaN is not
            continue
        remedy = ""
        if isinstance(value, float) and value > ROUNDING:
            remedy = " Start the server with --logprobs-mode raw_logprobs."
        raise ModelError("logprobs", f"prompt_logprobs: token {place} has {value}, which is no log-prob.{remedy}")
    return np.asarray(values, dtype=np.float32)


def _value(entry: Any, token: int) -> float | None:
    """The log-prob of a token in the entry of its place, by token id."""
    found = entry.get(str(token)) if isinstance(entry, dict) else None
    value = found.get("logprob") if isinstance(found, dict) else None
    return float(value) if isinstance(value, int | float) else None
