"""The body of the requests for one model, without what its servers refuse."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

import openai

from sweet_rl.models.base import ModelError, Sampling

logger = logging.getLogger(__name__)
# Without these a server of open models applies what the model's generation_config.json says of them.
PLAIN_SAMPLING = {"top_k": -1, "repetition_penalty": 1.0, "min_p": 0.0}
NOT_EVERYWHERE = ("return_token_ids", "logprobs", "seed", "top_p", "temperature", "n", *PLAIN_SAMPLING)


class RequestBody:
    """Bodies of requests.

    Args:
        model: The name under which the servers know the model.
        request: Fields that override all others; None leaves a field out.
        hosted: Whether the server is OpenAI's own, which does not know the fields of PLAIN_SAMPLING.

    Attributes:
        one_at_a_time: Whether the servers give one reply per call.
    """

    def __init__(self, model: str, request: Mapping[str, Any] | None, hosted: bool = False) -> None:
        self.model = model
        self.one_at_a_time = False
        self._request = dict(request or {})
        self._left_out: set[str] = set(PLAIN_SAMPLING if hosted else ())
        self._text_only = False
        self._token_limit = "max_tokens"

    def build(self, prompt: dict[str, Any], sampling: Sampling, text: str | None) -> dict[str, Any]:
        """Return the body of one request.

        Args:
            prompt: The fields beside the sampling settings.
            sampling: Its seed is sent modulo 2**31.
            text: The prompt as text, for a server that takes no token ids.
        """
        body = (
            prompt
            | PLAIN_SAMPLING
            | {
                "model": self.model,
                self._token_limit: sampling.max_tokens,
                "temperature": sampling.temperature,
                "top_p": sampling.top_p,
                "n": sampling.n,
                "seed": sampling.seed % 2**31,
            }
        )
        if self._text_only and text is not None:
            body["prompt"] = text
        body = {name: value for name, value in body.items() if name not in self._left_out} | self._request
        return {name: value for name, value in body.items() if value is not None}

    def adapt(self, error: ModelError, sent: dict[str, Any]) -> bool:
        """Drop a parameter of `sent` that the server refused by name; return whether one was dropped."""
        refusal = error.__cause__
        if not isinstance(refusal, (openai.BadRequestError, openai.UnprocessableEntityError)):
            return False
        if error.kind == "context":  # vLLM names both parameters of the limit where a prompt is too long
            return False
        text = str(error)
        if isinstance(sent.get("prompt"), list) and "prompt" in text and "string" in text:
            if not self._text_only:
                logger.warning("%s takes no token ids, so it tokenises the prompts itself (%s)", self.model, text[:200])
            self._text_only = True
            return True
        if "max_completion_tokens" in text and "max_tokens" in sent:
            self._token_limit = "max_completion_tokens"
            return "max_tokens" not in self._request
        words = {refusal.param, *re.findall(r"\w{2,}|(?<=['\"`])\w(?=['\"`])", text)}  # a single letter only if quoted
        named = {name for name in NOT_EVERYWHERE if name in sent and name in words} - self._request.keys()
        if new := sorted(named - self._left_out):
            logger.warning("%s does not take %s: left out from now on (%s)", self.model, ", ".join(new), text[:200])
        self._left_out |= named
        self.one_at_a_time |= "n" in named
        return bool(named)
