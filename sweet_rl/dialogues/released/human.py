"""What the humans of the released protocol have in common: one call, a raw cut, and no second try."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sweet_rl.dialogues.protocols import HumanReply
from sweet_rl.models.base import ChatModel, ModelError, Sampling

NO_RESPONSE = "No response."
MAX_REPLY_TOKENS = 4096
BAD_REQUEST = ("refused", "context", "filtered")  # kinds of errors of a server that refuses a request as bad


@dataclass
class ReleasedHuman:
    """A human that a language model plays as it was released.

    Args:
        model: The model.
        prompt_template: Instructions of the human.
        max_chars: Number of characters at which a reply is cut, in the middle of a word if need be.
        temperature: Temperature of the replies; 0 is greedy.
        max_tokens: Largest number of tokens of one reply.
        retry_leaks: Without effect: this human's replies are never asked for again.
    """

    model: ChatModel
    prompt_template: str
    max_chars: int = 400
    temperature: float = 0.0
    max_tokens: int = MAX_REPLY_TOKENS
    retry_leaks: bool = False

    async def ask(self, messages: list[Any], seed: int) -> HumanReply:
        """The model's reply to the messages; NO_RESPONSE if its server refuses them as a bad request."""
        sampling = Sampling(temperature=self.temperature, max_tokens=self.max_tokens, seed=seed)
        try:
            (completion,) = await self.model.complete(messages, sampling)
        except ModelError as error:
            if error.kind not in BAD_REQUEST:
                raise
            return HumanReply(NO_RESPONSE)
        text = completion.text[: self.max_chars]
        return HumanReply(text, 0, completion.prompt_tokens, completion.completion_tokens)
