"""What the humans of the released protocol have in common: one call, a raw cut, and no second try."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sweet_rl.dialogues.protocols import HumanReply
from sweet_rl.models.base import ChatModel, ModelError, Sampling

logger = logging.getLogger(__name__)
NO_RESPONSE = "No response."
MAX_REPLY_TOKENS = 4096
BAD_REQUEST = 400


@dataclass
class ReleasedHuman:
    """A human that a language model plays as it was released.

    Args:
        model: The model.
        prompt_template: Instructions of the human.
        max_chars: Number of characters at which a reply is cut, in the middle of a word if need be.
        temperature: Temperature of the replies; 0 is greedy.
        max_tokens: Largest number of tokens of one reply.
        retry_leaks: Without effect: a reply that gives the reference solution away is counted and passes.
    """

    model: ChatModel
    prompt_template: str
    max_chars: int = 400
    temperature: float = 0.0
    max_tokens: int = MAX_REPLY_TOKENS
    retry_leaks: bool = False
    _warned: bool = field(default=False, init=False)

    async def ask(self, messages: list[Any], seed: int, gives_away: Callable[[str], bool]) -> HumanReply:
        """The model's reply to the messages; NO_RESPONSE if its server refuses them as a bad request.

        Args:
            messages: The whole request.
            seed: Random seed.
            gives_away: Function that says whether a reply gives the reference solution away.

        Raises:
            ModelError: There is no reply for another reason.
        """
        sampling = Sampling(temperature=self.temperature, max_tokens=self.max_tokens, seed=seed)
        try:
            (completion,) = await self.model.complete(messages, sampling)
        except ModelError as error:
            status = getattr(error.__cause__, "status_code", None)
            bad = status == BAD_REQUEST or (status is None and error.kind == "context")  # a model in this process
            if error.fatal or not bad:
                raise
            if not self._warned:
                self._warned = True
                logger.warning("human: the reply to a bad request is %r, as published: %s", NO_RESPONSE, error)
            return HumanReply(NO_RESPONSE)
        text = completion.text[: self.max_chars]
        return HumanReply(text, int(gives_away(text)), completion.prompt_tokens, completion.completion_tokens)
