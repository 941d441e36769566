"""The report of a run folder in a real browser: light and dark, on a phone, with credit, without a request."""

import json
import shutil

import pytest

from tests.integration.viewer.test_browser import contrast
from tests.support.command_line import call
from tests.support.hostile_texts import HOSTILE
from tests.unit.viewer.test_report import make_run, manifest

TEXTS = (
    ".top h1 .method", ".lead", ".unfinished li", ".results small", ".card .quiet", ".agent .bubble",
    ".pick-group span", ".picks [aria-pressed=true]", ".command code",
)  # fmt: skip


@pytest.fixture(scope="module")
def address(tmp_path_factory, perturbed_mini):
    """The page of a run whose critic is a mini agent with noise on its weights; the human says what is hostile."""
    run = make_run(tmp_path_factory.mktemp("report") / "run")
    texts = "\n".join(text for text in HOSTILE.values() if len(text) < 400)
    for path in run.glob("*.graded.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            row["dialogue_history"][2]["content"] = texts
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    shutil.copytree(perturbed_mini, run / "critic")
    trained = {"learning_rate": 1e-4, "ref_pretrain": "mini", "pretrain": "mini", "dataset": "pairs_with_c.jsonl"}
    manifest(run / "critic", settings=trained, command="python scripts/train_dpo.py --save_path run/critic")
    manifest(run / "ranked.jsonl", settings={"critic_type": "log_ratio", "reference": "sampled"}).write_text("")
    result = call("../visualizers/report.py", folder=run)
    assert result.code == 0, result.err
    return (run / "report.html").as_uri()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_the_report_fits_and_can_be_read_and_asks_for_nothing(window, address, theme, width):
    window.theme(theme)
    window.size(width, 844)
    try:
        window.open(address)
        assert window.run("document.documentElement.scrollWidth") <= width
        for selector in TEXTS:
            assert contrast(window, selector) >= 4.5, selector
        agents = window.run("[...document.querySelectorAll('.agent')].filter(node => node.offsetParent).length")
        assert agents == (1 if width == 390 else 3)
        complaints, asked = window.logs()
        assert complaints == [] and [url for url in asked if not url.startswith(("data:", address))] == []
        assert window.run("window.ran") is None
    finally:
        window.theme("light")
        window.size(1400, 900)


def test_a_task_is_shown_by_each_agent_with_the_credit_of_its_turns_and_another_one_when_asked(window, address):
    window.open(address)
    assert window.texts(".agent > h3") == ["zero-shot", "multi-turn DPO", "SWEET-RL"]
    turns = len(window.all(".m-agent"))
    assert turns == len(window.all(".m-agent .advantage b")) == len(window.all(".strip-turn-button")) > 3
    assert (
        "seed" not in window.texts("#tasks > .quiet")[0] and "which does not see" in window.texts("#tasks > .quiet")[0]
    )
    before = window.texts(".task-box .entry-title")
    window.click(".pick-group:last-child button:last-child")
    window.wait("document.documentElement.dataset.shown !== '0'")
    assert window.texts(".task-box .entry-title") != before
    assert window.all(".agent script, .agent iframe, .agent img, .agent a") == []
    window.run("document.querySelector('.m-agent .token').scrollIntoView({ block: 'center' })")
    window.hover(window.all(".m-agent .token")[0])
    window.wait("!document.getElementById('tip').hidden")
    assert "log π critic" in window.one("#tip").text
    assert "python scripts/train_dpo.py --save_path run/critic" in window.texts(".command code")
