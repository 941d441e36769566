"""A critic with a value head: its values, and that other dialogues go on while it computes them."""

import asyncio
import json
import threading

import pytest

from sweet_rl.method.critics import CheckedCritic
from sweet_rl.method.privileged_information import hint_text
from sweet_rl.method.value_critic import PictureValueCritic, ValueHeadCritic, _window
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import model_path
from sweet_rl.runs.cli import to_settings
from sweet_rl.runs.manifest import DIRECTORY_MANIFEST
from sweet_rl.runs.records import TurnCandidates
from sweet_rl.training.reference_pages import PictureSettings


def test_the_values_are_computed_beside_the_event_loop_and_given_back_by_turn():
    begun, go_on = threading.Event(), threading.Event()

    def value(texts):
        begun.set()
        assert go_on.wait(60), "the event loop stood still"
        return [float(number) for number in range(len(texts))]

    async def score():
        chat = ChatFormat.from_pretrained(model_path("mini"))
        critic = CheckedCritic(ValueHeadCritic(chat, value, hint=False))
        records = [TurnCandidates("p", "", ["a", "b"]), TurnCandidates("q", "", ["c"])]
        scores = asyncio.create_task(critic.scores(records))
        while not begun.is_set():
            await asyncio.sleep(0.01)
        go_on.set()
        return await scores

    assert asyncio.run(score()) == [[0.0, 1.0], [2.0]]


def test_the_picture_stands_in_the_place_of_the_reference_solution(tiny_vision):
    pytest.importorskip("PIL.Image", reason="needs: pip install -e '.[frontend]'")
    record = TurnCandidates("p", "", ["One."], dialogue=[{"role": "user", "content": "Build a page."}])
    (text,) = PictureValueCritic(None, tiny_vision, None)._encoded(record, (28, 28))
    picture = "<|vision_start|><|image_pad|><|vision_end|>"
    assert tiny_vision.chat.tokenizer.decode(text.ids).startswith(hint_text(picture))


def test_pages_are_drawn_in_the_window_that_the_training_recorded(tmp_path):
    recorded = to_settings(PictureSettings(page_width=800, page_height=600))
    manifest = {"status": "finished", "settings": recorded, "inputs": {}}
    (tmp_path / DIRECTORY_MANIFEST).write_text(json.dumps(manifest))
    assert _window(str(tmp_path)) == {"width": 800, "height": 600}
    assert _window(str(tmp_path / "elsewhere")) == {}
