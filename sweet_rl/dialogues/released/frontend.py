"""Frontend Design under the released protocol, to compare with published figures (`--protocol released`)."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from sweet_rl.dialogues.domain import Domain
from sweet_rl.dialogues.frontend.environment import DOMAIN
from sweet_rl.dialogues.frontend.vision_human import draw_both
from sweet_rl.dialogues.frontend.websight import with_fixed_pictures
from sweet_rl.dialogues.leaks import holds_markup
from sweet_rl.dialogues.protocols import HumanReply
from sweet_rl.dialogues.released.environment import ReleasedEnvironment
from sweet_rl.dialogues.released.files import (
    FRONTEND_AGENT,
    FRONTEND_HUMAN,
    FRONTEND_SENTENCES,
    file_hashes,
    protocol_text,
    text_values,
)
from sweet_rl.dialogues.released.human import MAX_REPLY_TOKENS, ReleasedHuman
from sweet_rl.rendering.renderer import PageRenderer
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Message, Task

MAX_REPLY_CHARS = 1000
_PAGES = (re.compile(r"<html[^>]*>.*?</html>", re.DOTALL), re.compile(r"<body[^>]*>.*?</body>", re.DOTALL))


def page_of(content: str) -> str | None:
    """The page of a message: its first `<html>` element, else its first `<body>` element; None if it has neither."""
    text = with_fixed_pictures(content)
    return next((found[0] for pattern in _PAGES if (found := pattern.search(text))), None)


def newest_page(dialogue: list[Message]) -> str | None:
    """The page of the agent's newest message that holds one."""
    pages = (page_of(message["content"]) for message in reversed(dialogue) if message["role"] == "assistant")
    return next((page for page in pages if page is not None), None)


class ReleasedPageEnvironment(ReleasedEnvironment):
    """A `ReleasedEnvironment` whose answer is the newest page of the dialogue."""

    def last_answer(self, content: str) -> str | None:
        return newest_page(self.dialogue)


@dataclass
class ReleasedPageHuman(ReleasedHuman):
    """A human who sees the picture of the agent's newest page and that of the reference page.

    Args:
        sentences: Sentence before the picture of the agent's page, that in its place if there is none, and that before
            the picture of the reference page.
        renderer: Renderer that draws both pages.
    """

    max_chars: int = MAX_REPLY_CHARS
    sentences: tuple[str, str, str] = field(kw_only=True)
    renderer: PageRenderer = field(kw_only=True)

    async def reply(self, task: Task, dialogue: list[Message], seed: int) -> HumanReply:
        """See `Human.reply`. Raises ModelError (kind "reference") if the reference page cannot be drawn."""
        reference, drawn = await draw_both(self.renderer, task, newest_page(dialogue))
        before, without, last = self.sentences
        parts = [_text(self.prompt_template)]
        if drawn is not None and drawn.png is not None:
            parts += [_text(before), self._picture(drawn.png)]
        else:
            parts.append(_text(without))
        parts += [_text(last), self._picture(reference)]
        return await self.ask([{"role": "user", "content": parts}], seed, holds_markup)

    def _picture(self, png: bytes) -> dict[str, Any]:
        kind = "image/jpeg" if "gpt" in _name_of(self.model).lower() else "image"
        return {
            "type": "image_url",
            "image_url": {"url": f"data:{kind};base64,{base64.b64encode(png).decode('ascii')}"},
        }


def _name_of(model: Any) -> str:
    """The name under which a server has a model, also behind a cache; empty for another model."""
    while not isinstance(model, str):
        model = getattr(model, "model", "")
    return model


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def released_domain(folder: str | None) -> Domain:
    """The domain `html` under the released protocol. Raises UserError if its files cannot be had."""
    try:
        sentences = text_values(protocol_text(FRONTEND_SENTENCES, folder), "invoke_model")
    except (SyntaxError, ValueError) as error:
        raise UserError(f"--protocol_files: {FRONTEND_SENTENCES.path}: {error}.") from error
    if len(sentences) != 3:
        found = f"{len(sentences)} sentences of the human's message"
        raise UserError(f"--protocol_files: {FRONTEND_SENTENCES.path} has {found}; 3 are needed.")
    before, without, last = sentences
    return replace(
        DOMAIN,
        environment=ReleasedPageEnvironment,
        agent_prompt=protocol_text(FRONTEND_AGENT, folder),
        agent_prompt_values=(),
        human=partial(ReleasedPageHuman, sentences=(before, without, last)),
        human_prompt=protocol_text(FRONTEND_HUMAN, folder),
        human_prompt_values=(),
        max_reply_chars=MAX_REPLY_CHARS,
        max_reply_tokens=MAX_REPLY_TOKENS,
        retries_leaks=False,
        protocol="released",
        protocol_files=file_hashes([FRONTEND_AGENT, FRONTEND_HUMAN, FRONTEND_SENTENCES], folder),
    )
