"""The page in a real browser: hostile text stays text, nothing runs or loads, and the filter works without a script."""

import pytest

from sweet_rl.viewer.page import printable
from sweet_rl.viewer.show import ViewSettings, show
from tests.support.command_line import call, write_rows
from tests.support.dialogues import graded
from tests.support.hostile_texts import HOSTILE
from tests.support.window import Window

SCRIPT = "../visualizers/visualize_dialogue_histories.py"


@pytest.fixture(scope="module")
def window():
    window = Window()
    yield window
    window.close()


def hostile_trajectory(name: str, text: str) -> dict:
    """A dialogue with the text as task, message of both sides, answer, id, test, failure and part."""
    task = {"problem_description": text, "ground_truth": text, "test_cases": {text: text}}
    history = [
        {"role": "user", "content": text},
        {"role": "assistant", "content": text, "input": text, "output": text, "oracle": text},
        {"role": "user", "content": text},
        {"role": "assistant", "content": f"I WANT TO ANSWER: {text}", "input": text, "output": text},
    ]
    test = {"name": text, "passed": False, "reason": text, "message": text}
    return {
        "id": f"{name} {text[:200]}", "task": task, "dialogue_history": history, "answer": text, "reward": 0.5,
        "ending": "answered", "failure": {"kind": text, "message": text, "side": text}, "turn_credit": [0.5, -0.5],
        "parts": [{"text": text, "train": True}], "grade": {"tests": [test]},
    }  # fmt: skip


def test_hostile_texts_are_shown_as_text_and_nothing_runs_or_loads(tmp_path, window):
    rows = write_rows(
        tmp_path / "<img src=x onerror=alert(1)>.jsonl", [hostile_trajectory(*i) for i in HOSTILE.items()]
    )
    page = tmp_path / "page.html"
    show(ViewSettings(rows, str(page)))
    window.open(page.as_uri())
    shown = window.texts("article .message.human:nth-child(2) .text")
    assert shown == [printable(text) for text in HOSTILE.values()]
    assert window.run("window.ran") is None
    assert window.all("script, iframe, form, base, main img, link, object, svg, style + style") == []
    assert window.run("[...document.querySelectorAll('a')].every(a => a.getAttribute('href').startsWith('#d-'))")
    window.run("[...document.links].slice(-1)[0].click()")
    complaints, asked = window.logs()
    assert complaints == []
    assert [url[:80] for url in asked if url.partition("#")[0] != page.as_uri()] == []


def test_the_policy_stops_what_a_flaw_in_the_template_would_let_in(tmp_path, window):
    page = tmp_path / "page.html"
    show(ViewSettings(write_rows(tmp_path / "plain.jsonl", graded()[:1]), str(page)))
    flaws = (
        "<script>window.ran = 1</script><img src=x onerror='window.ran = 2'><style>main { display: none }</style>"
        "<link rel=stylesheet href=http://127.0.0.1:9/s><iframe src='data:text/html,x'></iframe>"
    )
    page.write_text(page.read_text().replace("<main>", f"<main>{flaws}"))
    window.open(page.as_uri())
    assert window.run("window.ran") is None and window.all("main h1")[0].is_displayed()
    complaints, _ = window.logs()
    assert sum("Content Security Policy" in text for text in complaints) >= 5


def test_the_filter_leaves_the_dialogues_of_one_outcome(tmp_path, window):
    page = tmp_path / "page.html"
    show(ViewSettings(write_rows(tmp_path / "rows.jsonl", graded()), str(page)))
    window.open(page.as_uri())
    for key, expected in (
        ("success", [t for t in graded() if t.is_graded and t.reward == 1]),
        ("other", [t for t in graded() if t.is_graded and t.reward != 1]),
        ("ungraded", [t for t in graded() if not t.is_graded]),
        ("all", graded()),
    ):
        window.run("document.getElementById(arguments[0]).click()", f"filter-{key}")
        for selector in ("article", "nav li"):
            assert sum(entry.is_displayed() for entry in window.all(selector)) == len(expected) > 0


def test_the_command_writes_a_page_and_keeps_what_it_would_not_replace(tmp_path):
    path, page = write_rows(tmp_path / "graded.jsonl", graded()), tmp_path / "graded.html"
    done = call(SCRIPT, input_path=path)
    assert done.code == 0, done.err
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    page.write_text("something else")
    refused = call(SCRIPT, input_path=path)
    assert refused.code == 2 and "--overwrite" in refused.err and page.read_text() == "something else"


def test_the_command_names_a_bad_line_and_writes_nothing(tmp_path):
    path = write_rows(tmp_path / "bad.jsonl", graded()[:1])
    with open(path, "a") as file:
        file.write('{"dialogue_history": []}\n')
    refused = call(SCRIPT, input_path=path)
    assert refused.code == 2 and "line 2" in refused.err and "'task'" in refused.err
    assert [entry.name for entry in tmp_path.iterdir()] == ["bad.jsonl"]
