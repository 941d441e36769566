"""The human of Frontend Design (the paper, section 3): a vision model that compares pictures of two pages."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sweet_rl.dialogues.frontend.extract_page import extract_page, without_pages
from sweet_rl.dialogues.leaks import holds_markup
from sweet_rl.dialogues.simulated_human import HumanReply, ModelHuman, transcript
from sweet_rl.models.base import Message, ModelError
from sweet_rl.models.prompts import fill
from sweet_rl.rendering.renderer import PageRenderer, Rendered
from sweet_rl.runs.records import Task

PROMPT_VALUES = ("problem_description", "dialogue", "pictures")
PAGE_MARK = "(a page)"
BOTH = "You are shown two pictures. The first is the designer's newest page, the second is the design you have in mind."
NO_PAGE_YET = "You are shown one picture: the design you have in mind. The designer has not shown you a page yet."
NOT_DRAWN = (
    "You are shown one picture: the design you have in mind. The designer's newest page could not be displayed at all "
    "({reason}); tell the designer so."
)
WITHOUT_MARKUP = "(I cannot write code. Please show me a page, or ask about one part of it.)"
REMINDER = "\n\nAn earlier draft of your message held code and was thrown away. Say it in everyday words only."


@dataclass
class VisionHuman(ModelHuman):
    """A simulated human on a server's model that takes pictures (OpenAI's `image_url` parts, as data URLs).

    `prompt_template` holds {problem_description}, {dialogue} and {pictures}. A reply that holds markup is a leak. The
    human replies that it sees nothing if the agent's page cannot be drawn. The dialogue fails (kind "reference") if the
    reference page cannot be drawn.
    """

    renderer: PageRenderer = field(kw_only=True)

    async def reply(self, task: Task, dialogue: list[Message], seed: int) -> HumanReply:
        """See `Human.reply`. Raises ModelError (kind "reference") if the reference page cannot be drawn."""
        draft = newest_draft(dialogue)
        reference, drawn = await draw_both(self.renderer, task, draft)
        pictures = [("The design you have in mind:", reference)]
        if drawn is None:
            situation = NO_PAGE_YET
        elif drawn.png is None:
            situation = fill(NOT_DRAWN, reason=_reason(drawn.failure))
        else:
            situation = BOTH
            pictures.insert(0, ("The designer's newest page:", drawn.png))
        prompt = fill(
            self.prompt_template,
            problem_description=task.problem_description,
            dialogue=transcript(dialogue, "Designer", lambda text: without_pages(text, PAGE_MARK)),
            pictures=situation,
        )
        return await self.ask(
            lambda reminded: message_content(prompt + REMINDER if reminded else prompt, pictures),
            holds_markup,
            WITHOUT_MARKUP,
            seed,
        )


async def draw_both(renderer: PageRenderer, task: Task, page: str | None) -> tuple[bytes, Rendered | None]:
    """The picture of the reference page, and the agent's page as drawn; None if there is no page.

    Raises:
        ModelError: The reference page cannot be drawn (kind "reference"), or the machine failed (kind "machine").
    """
    pages = [task.ground_truth] if page is None else [task.ground_truth, page]
    reference, *drawn = await asyncio.gather(*(asyncio.to_thread(renderer.render, one) for one in pages))
    if reference.png is None:
        raise ModelError("reference", f"the reference page gives no picture: {_reason(reference.failure)}")
    if drawn and (drawn[0].failure or {}).get("kind") == "machine":
        raise ModelError("machine", f"the page was not drawn: {_reason(drawn[0].failure)}")
    return reference.png, drawn[0] if drawn else None


def message_content(prompt: str, pictures: list[tuple[str, bytes]]) -> list[dict[str, Any]]:
    """The prompt and the PNG pictures, each after its caption, as the parts of one chat message."""
    parts: list[dict[str, Any]] = [{"type": "text", "text": prompt}]
    for caption, png in pictures:
        url = "data:image/png;base64," + base64.b64encode(png).decode("ascii")
        parts += [{"type": "text", "text": caption}, {"type": "image_url", "image_url": {"url": url}}]
    return parts


def _reason(failure: dict | None) -> str:
    return "{kind}: {message}".format(**(failure or {}))


def newest_draft(dialogue: Sequence[Message]) -> str | None:
    """The page of the agent's newest message that holds one; None before the first draft."""
    pages = (extract_page(message["content"]) for message in reversed(dialogue) if message["role"] == "assistant")
    return next((page for page in pages if page is not None), None)
