"""The human that a vision model plays: what it is shown, and whose failure is whose."""

import asyncio
import base64
from dataclasses import dataclass, field

import pytest

from sweet_rl.dialogues import HumanSettings
from sweet_rl.dialogues.frontend.vision_human import PROMPT_VALUES, REMINDER, WITHOUT_MARKUP, VisionHuman
from sweet_rl.dialogues.leaks import holds_markup
from sweet_rl.models.base import Completion, ModelError
from sweet_rl.models.prompts import load_prompt
from sweet_rl.rendering.renderer import Rendered
from sweet_rl.runs.records import Task

PAGE, DRAFT, BROKEN = (f"<html><body>{name}</body></html>" for name in ("reference", "draft", "broken"))
TASK = Task("A page for a bakery.", PAGE)


class Drawn:
    """Draws every page but the broken one, as its own text; real pictures: tests/scripts/test_frontend.py."""

    def render(self, page: str) -> Rendered:
        if page == BROKEN:
            return Rendered(None, 0, 0, {"kind": "timeout", "message": "it never ended"})
        return Rendered(page.encode(), 1, 1, None)


@dataclass
class Model:
    replies: list[str]
    chat: None = None
    asked: list = field(default_factory=list)

    async def complete(self, messages, sampling):
        self.asked.append((messages[0]["content"], sampling))
        text = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return [Completion(text, None, None, "stop", 5, 3)]


def human(*replies: str, **settings) -> VisionHuman:
    prompt = load_prompt("html_user.txt", PROMPT_VALUES)
    return VisionHuman(Model(list(replies)), prompt, HumanSettings(**settings), renderer=Drawn())


def ask(one: VisionHuman, *said: str, task: Task = TASK):
    dialogue = [{"role": "user", "content": "Instructions"}]
    for text in said:
        dialogue += [{"role": "assistant", "content": text}, {"role": "user", "content": "Go on."}]
    return asyncio.run(one.reply(task, dialogue[:-1], seed=7))


def texts(content: list) -> str:
    return " ".join(part["text"] for part in content if part["type"] == "text")


def count(content: list) -> int:
    return sum(part["type"] == "image_url" for part in content)


def test_the_newest_draft_is_shown_and_the_history_holds_no_markup():
    one = human("Fine.")
    ask(one, f"Here: ```html\n{DRAFT}\n```", "Any wish?")
    content, _ = one.model.asked[0]
    assert count(content) == 2 and "<html" not in texts(content) and "(a page)" in texts(content)
    assert "You: Go on." in texts(content)
    captions = [part["text"] for part in content[1:] if part["type"] == "text"]
    pictures = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
    assert captions == ["The designer's newest page:", "The design you have in mind:"]
    assert [base64.b64decode(url.removeprefix("data:image/png;base64,")).decode() for url in pictures] == [DRAFT, PAGE]


def test_a_draft_that_cannot_be_drawn_is_told_and_the_dialogue_goes_on():
    one = human("I see nothing.")
    assert ask(one, BROKEN).text == "I see nothing."
    content, _ = one.model.asked[0]
    assert count(content) == 1 and "could not be displayed" in texts(content) and "it never ended" in texts(content)


def test_a_reference_that_cannot_be_drawn_is_not_the_agents_failure():
    with pytest.raises(ModelError, match="never ended") as error:
        ask(human("?"), DRAFT, task=Task("A page.", BROKEN))
    assert error.value.kind == "reference"


def test_a_reply_with_markup_is_asked_for_again_counted_and_at_last_replaced():
    one = human("Write <h1>Hi</h1>.", "Make it larger.")
    reply = ask(one, DRAFT)
    assert (reply.text, reply.leaks) == ("Make it larger.", 1)
    assert REMINDER.strip() in texts(one.model.asked[1][0]) and one.model.asked[1][1].temperature > 0
    stubborn = ask(human("<div class='p-4'>"), DRAFT)
    assert (stubborn.text, stubborn.leaks) == (WITHOUT_MARKUP, 4)
    assert ask(human("<b>no</b>", retry_leaks=False), DRAFT).text == "<b>no</b>"


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("The heading says <Welcome> and 3 < 4.", False),
        ("Make the title blue, 40 pixels high, with class.", False),
        ("Use </div>.", True),
        ('Add class="p-4".', True),
        ("```\nbody\n```", True),
        ("<img src=x>", True),
    ],
)
def test_markup_is_told_from_plain_words(text, held):
    assert holds_markup(text) is held
