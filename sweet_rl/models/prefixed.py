"""A model whose replies all begin with a given text, which makes an agent answer in its first turn."""

from __future__ import annotations

from dataclasses import replace

from sweet_rl.models.base import ChatModel, Completion, Prompt, Sampling, prompt_ids
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Part


class PrefixedModel:
    """A ChatModel whose replies continue `prefix`, which is part of their text and token ids.

    Log-probs are not kept, because the prefix was not sampled.

    Raises:
        UserError: The model has no chat format, which is needed to continue a text.
    """

    def __init__(self, model: ChatModel, prefix: str) -> None:
        if model.chat is None:
            raise UserError("a reply can only begin with a given text if the agent's tokenizer is available.")
        self.model, self.prefix, self.chat = model, prefix, model.chat
        parts = self.chat.prompt([{"role": "user", "content": "Which?"}])
        opening: Part = {"text": self.chat.lead + prefix, "train": False}
        self._prefix_ids = self.chat.encode([*parts, opening])[0][len(self.chat.encode(parts)[0]) :]

    async def check(self) -> None:
        await self.model.check()

    async def complete(self, prompt: Prompt, sampling: Sampling) -> list[Completion]:
        replies = await self.model.complete([*prompt_ids(self.chat, prompt), *self._prefix_ids], sampling)
        return [self._with_prefix(reply) for reply in replies]

    def _with_prefix(self, reply: Completion) -> Completion:
        ids = None if reply.token_ids is None else [*self._prefix_ids, *reply.token_ids]
        written = None if reply.completion_tokens is None else reply.completion_tokens + len(self._prefix_ids)
        text = self.prefix + reply.text if ids is None else self.chat.decode(ids)
        return replace(reply, text=text, token_ids=ids, logprobs=None, completion_tokens=written)

    async def close(self) -> None:
        await self.model.close()
