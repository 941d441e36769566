"""A scripted client for web pages: looks at both pages and names the most striking differences, without a model."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from sweet_rl.errors import UserError
from sweet_rl.grading.html import extract_page
from sweet_rl.humans.base import HumanReply
from sweet_rl.humans.page_elements import Look, look_at
from sweet_rl.humans.page_feedback import feedback
from sweet_rl.models.base import Message
from sweet_rl.records import Task

if TYPE_CHECKING:
    from sweet_rl.grading.browser import PageRenderer

NO_PAGE = ("Please show me a page, then I can tell you what to change.", "I would like to see a page first.")
NOT_SEEN = ("I cannot see your page: {message}.", "Your page does not show up here: {message}.")


class ScriptedDesigner:
    """Tells the agent of a Frontend Design task what differs between its page and the reference page.

    Sees what the browser computed of both pages (boxes, colors, texts, pictures), never their source, and answers
    no questions: it reacts to the newest page in the dialogue. The same seed gives the same words.
    """

    def __init__(self, renderer: PageRenderer) -> None:
        self.renderer = renderer
        self._wanted: dict[str, Look] = {}

    async def reply(self, task: Task, dialogue: list[Message], seed: int) -> HumanReply:
        """The reply to the last message of `dialogue`. Raises UserError where the reference page cannot be drawn."""
        rng = random.Random(seed)
        page = newest_page(dialogue)
        if page is None:
            return HumanReply(rng.choice(NO_PAGE))
        wanted, failure = await self._look(task.ground_truth)
        if wanted is None:
            raise UserError(
                f"task {task.id}: its reference page cannot be drawn ({failure}). Leave such tasks out with "
                "scripts/filter_websites.py."
            )
        drawn, failure = await self._look(page)
        if drawn is None:
            return HumanReply(rng.choice(NOT_SEEN).format(message=failure))
        return HumanReply(feedback(wanted, drawn, rng))

    async def _look(self, html: str) -> tuple[Look | None, str | None]:
        """What is seen of a page, or why nothing is."""
        if html in self._wanted:
            return self._wanted[html], None
        rendered = await asyncio.to_thread(self.renderer.render, html, layout=True)
        if rendered.failure is not None:
            return None, rendered.failure["message"]
        look = look_at(rendered.boxes or [], rendered.width, rendered.height)
        self._wanted[html] = look
        return look, None


def newest_page(dialogue: list[Message]) -> str | None:
    """The page in the agent's newest message that holds one."""
    for message in reversed(dialogue):
        if message["role"] == "assistant" and (page := extract_page(message["content"])) is not None:
            return page
    return None
