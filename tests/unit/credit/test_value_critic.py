"""A critic with a value head: its values, and that other dialogues go on while it computes them."""

import asyncio
import json
import threading

from sweet_rl.chat import ChatFormat
from sweet_rl.cli.groups import to_settings
from sweet_rl.credit.critics import CheckedCritic
from sweet_rl.credit.value_critic import ValueHeadCritic, _window
from sweet_rl.model_loading import model_path
from sweet_rl.records import TurnCandidates
from sweet_rl.runs.manifest import DIRECTORY_MANIFEST
from sweet_rl.training.settings import PictureSettings


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


def test_pages_are_drawn_in_the_window_that_the_training_recorded(tmp_path):
    recorded = to_settings(PictureSettings(page_width=800, page_height=600))
    manifest = {"status": "finished", "settings": recorded, "inputs": {}}
    (tmp_path / DIRECTORY_MANIFEST).write_text(json.dumps(manifest))
    assert _window(str(tmp_path)) == {"width": 800, "height": 600}
    assert _window(str(tmp_path / "elsewhere")) == {}
