"""Frontend dialogues: pages as pictures with their similarity."""

import base64
import io

import pytest

from sweet_rl.dialogues import ANSWER_MARKER
from sweet_rl.dialogues.frontend.extract_page import extract_page
from sweet_rl.runs.records import Task, Trajectory
from sweet_rl.viewer.designs import Pictures, shown_page
from sweet_rl.viewer.show import ViewSettings, show
from sweet_rl.viewer.views import dialogue_view
from tests.support.browsers import renderer_or_skip
from tests.support.command_line import write_rows

SCRIPTED = "<html><body><script>document.title = 'ran'; window.ran = 1</script><h1 onclick='x()'>Hi</h1></body></html>"


def page(header: str, heading: str, footer: str = "") -> str:
    """The HTML of a page with a coloured header, a heading and, if wanted, a coloured footer."""
    end = f'<footer style="background:{footer};height:60px">Contact</footer>' if footer else ""
    top = f'<header style="background:{header};height:90px;color:white">Sunny Bakery</header>'
    return f'<html><body style="margin:0">{top}<h1>{heading}</h1>{end}</body></html>'


REFERENCE = page("navy", "Fresh bread every day", "teal")
SAID = ("The header should be dark blue.", "There is a footer missing.")


def designs() -> list[Trajectory]:
    """Two dialogues about one page: the first hands in the reference page, the second another page too early."""
    task = Task("I need a page for a bakery.", REFERENCE)
    drafts = [page("crimson", "Fresh bread every day"), page("navy", "Fresh bread every day")]
    return [
        _dialogue(task, 0, [drafts[0], drafts[1], f"{ANSWER_MARKER}\n{REFERENCE}"], ["repairs", "repairs", "complete"]),
        _dialogue(task, 1, [drafts[1], f"{ANSWER_MARKER}\n{drafts[0]}"], ["repairs", "early"]),
    ]


def _dialogue(task: Task, sample: int, turns: list[str], words: list[str]) -> Trajectory:
    history = [{"role": "user", "content": task.problem_description}]
    for number, (turn, word) in enumerate(zip(turns, words, strict=True)):
        history.append({"role": "assistant", "content": turn, "oracle": word})
        if number < len(turns) - 1:
            history.append({"role": "user", "content": SAID[number]})
    answer = turns[-1].partition(ANSWER_MARKER)[2].strip()
    return Trajectory(task, history, answer, id=f"{task.id}-{sample}", ending="answered")


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


def test_a_page_that_was_cut_counts_in_an_answer_only():
    cut = "<html><body><h1>Hi</h1>"
    assert shown_page(cut) is None and shown_page(f"I WANT TO ANSWER:\n{cut}") == cut
