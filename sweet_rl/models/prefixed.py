"""A model whose replies all begin with a given text, which makes an agent answer in its first turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sweet_rl.models.base import ChatModel, Completion, Sampling
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Message, Part


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

    async def check(self) -> None:
        await self.model.check()

    async def complete(self, messages: list[Message], sampling: Sampling) -> list[Completion]:
        return await self.complete_parts(self.chat.prompt(messages), sampling, self.chat.fingerprint)

    async def complete_parts(
        self, parts: Sequence[Part], sampling: Sampling, tokenizer: str | None = None
    ) -> list[Completion]:
        prompt: list[Part] = [*parts, {"text": self.chat.lead + self.prefix, "train": False}]
        before, whole = (self.chat.encode(some, tokenizer)[0] for some in (parts, prompt))
        begun = whole[len(before) :]
        return [
            replace(
                completion,
                text=self.prefix + completion.text if ids is None else self.chat.decode([*begun, *ids]),
                token_ids=None if ids is None else [*begun, *ids],
                logprobs=None,
                prompt_tokens=_more(completion.prompt_tokens, -len(begun)),
                completion_tokens=_more(completion.completion_tokens, len(begun)),
            )
            for completion in await self.model.complete_parts(prompt, sampling, tokenizer)
            for ids in [completion.token_ids]
        ]

    async def close(self) -> None:
        await self.model.close()


def _more(count: int | None, number: int) -> int | None:
    return None if count is None else max(count + number, 0)
