"""Design dialogues in a real browser: pages as pictures, side by side, under a slider, as a difference."""

import re
from dataclasses import replace

import numpy as np
import pytest

from sweet_rl.dialogues.frontend.extract_page import extract_page
from sweet_rl.runs.records import TurnCandidates
from sweet_rl.viewer.designs import Pictures, shown_page
from sweet_rl.viewer.page import write_page
from sweet_rl.viewer.show import ViewSettings, open_collection
from tests.support.browsers import renderer_or_skip
from tests.support.command_line import write_rows
from tests.support.designs import designs
from tests.support.dialogues import graded

pytestmark = pytest.mark.usefixtures("quiet")
SCRIPTED = "<html><body><script>document.title = 'ran'; window.ran = 1</script><h1 onclick='x()'>Hi</h1></body></html>"


@pytest.fixture(scope="module")
def renderer():
    with renderer_or_skip(workers=1) as renderer:
        yield renderer


@pytest.fixture(scope="module")
def drawn(tmp_path_factory, renderer):
    """A page with two dialogues about one website, the second with a page of scripts and one that is empty."""
    folder = tmp_path_factory.mktemp("designs")
    trajectories = designs()
    trajectories[1].dialogue_history[1]["content"] = f"Look:\n```html\n{SCRIPTED}\n```"
    path = write_rows(folder / "designs.jsonl", trajectories)
    pytest.importorskip("efficientnet_lite_pytorch", reason="pip install -e '.[frontend]'")
    from sweet_rl.dialogues.frontend.encoders import load_encoder

    pictures = Pictures(renderer, load_encoder("efficientnet-lite0"))
    collection = open_collection(ViewSettings(path), pictures=pictures)
    text = write_page(collection, pictures)
    page = folder / "designs.html"
    page.write_text(text, encoding="utf-8")
    return trajectories, page.as_uri(), text, [collection.view(n) for n in range(2)]


def test_every_turn_with_a_page_has_its_picture_and_its_similarity(drawn, window):
    trajectories, address, _, views = drawn
    pages = [extract_page(m["content"]) for m in trajectories[0].dialogue_history if m["role"] == "assistant"]
    turns = views[0]["pictures"]["turns"]
    assert [turn["turn"] for turn in turns] == list(range(len(pages)))
    assert [turn["similarity"] == 1.0 for turn in turns] == [p == trajectories[0].task.ground_truth for p in pages]
    window.open(address)
    assert views[0]["messages"][-1]["oracle"] == "complete" and "complete" in window.texts(".m-agent > header")[-1]
    assert len(window.all(".frame img")) == len(pages)
    assert [float(text) for text in window.texts(".frame .number")] == [round(t["similarity"], 3) for t in turns]
    assert window.all(".similarity path")
    widths = window.run("[...document.querySelectorAll('.side img')].map(i => i.naturalWidth)")
    assert widths == [1280, 1280]


def test_the_slider_uncovers_the_reference(drawn, window):
    window.open(drawn[1])
    window.click('[data-mode="overlay"]')
    slider = window.one("#wipe")
    before = window.run("getComputedStyle(document.querySelector('.over')).clipPath")
    slider.send_keys("\ue014" * 20)  # arrow right
    assert window.run("document.getElementById('wipe').value") == "70"
    assert "30%" in window.run("getComputedStyle(document.querySelector('.over')).clipPath") != before
    assert "mode=overlay" in window.run("location.hash")


def test_the_difference_is_what_the_pixels_say(drawn, window):
    trajectories, address, _, views = drawn
    window.open(address)
    window.keys("3")
    window.wait("document.getElementById('pixel-words').textContent.includes('differ')")
    assert window.texts("#pixel-words") == ["No pixel differs."]  # the last turn is the reference itself
    assert views[0]["pictures"]["turns"][-1]["similarity"] == 1.0
    window.keys("j")
    window.shown(1)
    window.all(".frame")[0].click()
    window.wait("/differ/.test(document.getElementById('pixel-words').textContent)")
    share = float(re.match(r"([\d.]+) %", window.texts("#pixel-words")[0])[1])
    assert share == pytest.approx(differing_percent(drawn, 1, 0), abs=0.06)


def differing_percent(drawn, entry, turn):
    """The same figure by Pillow, from the pictures in the file."""
    import base64
    import io

    from PIL import Image

    _, _, text, views = drawn
    pictures = views[entry]["pictures"]

    def load(name):
        data = re.search(f'id="picture-{name}">([^<]*)<', text)[1]
        return Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")

    one, other = load(pictures["turns"][turn]["name"]), load(pictures["reference"]["name"])
    assert one.size == other.size
    gap = np.abs(np.asarray(one, np.int16) - np.asarray(other, np.int16)).max(axis=2)
    return 100 * float((gap > 8).mean())


def test_a_model_written_page_is_only_a_picture(drawn, window):
    _, address, text, _ = drawn
    assert SCRIPTED not in text and "window.ran" not in text
    window.open(address)
    window.keys("j")
    window.shown(1)
    assert window.run("window.ran") is None and window.run("document.title") != "ran"
    assert not window.all("iframe, object, embed")
    assert "Look:" in window.texts(".m-agent .bubble")[0]
    window.run("(() => { document.querySelector('.m-agent .fold').open = true; })()")
    window.wait("document.querySelector('.m-agent .code')")
    assert SCRIPTED in "".join(window.texts(".m-agent .code"))


def test_dialogues_about_code_are_sent_to_the_other_viewer(tmp_path):
    path = write_rows(tmp_path / "code.jsonl", graded())
    collection = open_collection(ViewSettings(path), pictures=Pictures(renderer=None))
    with pytest.raises(Exception, match="visualize_dialogue_histories.py"):
        list(collection.scan())


def test_a_page_that_was_cut_counts_in_an_answer_only():
    cut = "<html><body><h1>Hi</h1>"
    assert shown_page(cut) is None and shown_page(f"I WANT TO ANSWER:\n{cut}") == cut


def test_candidates_that_hold_pages_are_pictures_too(tmp_path, renderer):
    trajectory = designs()[1]
    said = trajectory.dialogue_history[1]["content"]
    texts = [said, f"I WANT TO ANSWER:\n{trajectory.task.ground_truth}", "no page"]
    record = TurnCandidates("p", said, texts, judge_result=[1, 0, 2], judge_scores=[0.1, 0.2, -0.3])
    record = replace(record, task=trajectory.task, turn=0, id=f"{trajectory.id}-0")
    pictures = Pictures(renderer)
    ranked = write_rows(tmp_path / "ranked.jsonl", [record])
    view = ViewSettings(write_rows(tmp_path / "designs.jsonl", [trajectory]), ranked_path=ranked)
    collection = open_collection(view, pictures=pictures)
    assert len(list(collection.scan())) == 1
    shown = collection.view(0)["messages"][1]["candidates"]
    assert "picture" not in shown[2]
    assert pictures.get(shown[0]["picture"]["name"]).startswith(b"\x89PNG")
    assert pictures.get("0" * 32) is None
