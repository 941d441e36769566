"""The scripted designer of Frontend Design: compares two pages and names their largest differences, without a model."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.pages.boxes import boxes
from lab.pages.page_differences import feedback
from lab.pages.page_elements import Look, look_at
from sweet_rl.dialogues import HumanReply
from sweet_rl.dialogues.frontend.extract_page import answered_page
from sweet_rl.dialogues.frontend.vision_human import newest_draft
from sweet_rl.models.base import Message, ModelError
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task

if TYPE_CHECKING:
    from sweet_rl.rendering.renderer import PageRenderer

LOOKS_KEPT = 4096
NO_PAGE = ("Please show me a page, then I can tell you what to change.", "I would like to see a page first.")
NOT_SEEN = ("I cannot see your page, it does not show up here.", "Your page stays empty here, I see nothing of it.")


def check_page_tasks(tasks: Sequence[Task], path: str) -> None:
    """Raise UserError naming the first task of the file `path` whose reference is not a page."""
    for number, task in enumerate(tasks, start=1):
        if answered_page(task.ground_truth) is None:
            raise UserError(
                f"{path}, task {number} ({task.id}): its ground_truth is no HTML page, and the scripted designer "
                "compares pages. Is this a file of Frontend Design tasks?"
            )


class ScriptedDesigner:
    """Tells the agent what differs between its newest page and the reference page. It answers no questions.

    It compares what the browser computed for both pages (boxes, colors, texts, pictures), never their source. The same
    seed gives the same words.

    Args:
        renderer: draws the pages, with their layout.
    """

    def __init__(self, renderer: PageRenderer) -> None:
        self.renderer = renderer
        self._seen: dict[str, Look] = {}

    async def reply(self, task: Task, dialogue: list[Message], seed: int) -> HumanReply:
        """The reply to the newest page in `dialogue`. Raises ModelError if the reference page cannot be drawn."""
        rng = random.Random(seed)
        draft = newest_draft(dialogue)
        if draft is None:
            return HumanReply(rng.choice(NO_PAGE))
        wanted, drawn = await asyncio.gather(self._look(task.ground_truth), self._look(draft))
        if isinstance(wanted, dict):
            raise ModelError("reference", f"the reference page gives no picture: {wanted['message']}")
        if isinstance(drawn, dict):
            if drawn["kind"] == "machine":
                raise ModelError("machine", f"the page was not drawn: {drawn['message']}")
            return HumanReply(rng.choice(NOT_SEEN))
        return HumanReply(await asyncio.to_thread(feedback, wanted, drawn, rng))

    async def _look(self, html: str) -> Look | dict:
        """The elements of a page, or its failure (`Rendered.failure`)."""
        if html in self._seen:
            return self._seen[html]
        rendered = await asyncio.to_thread(self.renderer.render, html, layout=True)
        if rendered.failure is not None:
            return rendered.failure
        look = look_at(boxes(rendered.layout) if rendered.layout else [], rendered.width, rendered.height)
        if len(self._seen) >= LOOKS_KEPT:
            del self._seen[next(iter(self._seen))]
        self._seen[html] = look
        return look
