"""Frontend dialogues: pages as pictures with their similarity."""

import base64
import io

import pytest

from sweet_rl.dialogues.frontend.extract_page import extract_page
from sweet_rl.runs.errors import UserError
from sweet_rl.viewer.designs import Pictures, shown_page
from sweet_rl.viewer.show import ViewSettings, show
from sweet_rl.viewer.views import dialogue_view
from tests.support.browsers import renderer_or_skip
from tests.support.command_line import write_rows
from tests.support.designs import designs
from tests.support.dialogues import graded

SCRIPTED = "<html><body><script>document.title = 'ran'; window.ran = 1</script><h1 onclick='x()'>Hi</h1></body></html>"


@pytest.fixture(scope="module")
def pictures():
    pytest.importorskip("efficientnet_lite_pytorch", reason="pip install -e '.[frontend]'")
    from sweet_rl.dialogues.frontend.encoders import load_encoder

    with renderer_or_skip(workers=1) as renderer:
        yield Pictures(renderer, load_encoder("efficientnet-lite0"))


def image(src: str):
    from PIL import Image

    return Image.open(io.BytesIO(base64.b64decode(src.partition(",")[2]))).convert("RGB")


def test_every_turn_with_a_page_has_its_picture_and_its_similarity(pictures):
    trajectory = designs()[0]
    pictures.draw([trajectory])
    view = dialogue_view(trajectory, pictures=pictures)
    shown = [message for message in view["messages"] if message["role"] == "assistant"]
    pages = [extract_page(row["content"]) for row in trajectory.dialogue_history if row["role"] == "assistant"]
    reference = trajectory.task.ground_truth
    assert [message["source"] for message in shown] == pages
    assert [message["similarity"] == pytest.approx(1) for message in shown] == [page == reference for page in pages]
    assert image(shown[-1]["picture"]["src"]) == image(view["reference_picture"]["src"])


def test_a_page_that_a_model_wrote_is_a_picture_and_text(pictures, tmp_path):
    trajectory = designs()[0]
    trajectory.dialogue_history[1]["content"] = f"Look:\n```html\n{SCRIPTED}\n```"
    path = tmp_path / "page.html"
    show(ViewSettings(write_rows(tmp_path / "designs.jsonl", [trajectory]), str(path)), pictures=pictures)
    text = path.read_text(encoding="utf-8")
    assert "<script" not in text and "&lt;script&gt;document.title" in text and "Look:" in text
    assert text.count('src="data:image/png;base64,') == 3 + 1  # the turns and the reference


def test_dialogues_about_code_are_sent_to_the_other_viewer(tmp_path):
    path = write_rows(tmp_path / "code.jsonl", graded())
    with pytest.raises(UserError, match="visualize_dialogue_histories.py"):
        show(ViewSettings(path), pictures=Pictures(renderer=None))


def test_a_page_that_was_cut_counts_in_an_answer_only():
    cut = "<html><body><h1>Hi</h1>"
    assert shown_page(cut) is None and shown_page(f"I WANT TO ANSWER:\n{cut}") == cut
