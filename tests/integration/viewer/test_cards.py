"""The pages of run cards in a real browser: they fit, ask for nothing, and show names as text."""

from __future__ import annotations

import pytest

from sweet_rl.evaluation.leaderboard import grouped
from sweet_rl.viewer.cards import card_page, leaderboard_page
from tests.integration.viewer.test_browser import contrast
from tests.support.hostile_texts import HOSTILE
from tests.unit.evaluation.test_leaderboard import card, four, row


def opened(window, path, page: str) -> None:
    path.write_text(page)
    window.driver.get("about:blank")
    window.logs()
    window.driver.get(path.as_uri())


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_a_leaderboard_fits_and_can_be_read(window, tmp_path, theme, width):
    window.theme(theme)
    window.size(width, 844)
    try:
        opened(window, tmp_path / "board.html", leaderboard_page(grouped(four())))
        assert window.run("document.documentElement.scrollWidth") <= width
        assert [len(table.find_elements("css selector", "tbody tr")) for table in window.all("table")] == [3, 1, 1]
        assert "human name: gpt instead of llama" in window.texts(".unfinished li")
        for selector in (".unfinished li", ".results small", ".lead", ".results td"):
            assert contrast(window, selector) >= 4.5, selector
    finally:
        window.theme("light")
        window.size(1400, 900)


@pytest.mark.usefixtures("quiet")
def test_hostile_names_are_text(window, tmp_path):
    models = [row(text) for text in HOSTILE.values() if len(text) < 400]
    opened(window, tmp_path / "board.html", leaderboard_page(grouped({"<b>x</b>.json": card(*models)})))
    assert len(window.all("tbody tr")) == len(models)
    assert window.run("window.ran") is None
    assert window.all("tbody script, tbody iframe, tbody img, tbody a, tbody b b") == []


@pytest.mark.usefixtures("quiet")
def test_the_page_of_a_card_links_the_page_of_each_model(window, tmp_path):
    (tmp_path / "a.html").write_text("<title>dialogues of a</title>")
    page = card_page(card(row("a", tests_passed=0.5), row("b")), {"a": "a.html", "b": "b.html"})
    opened(window, tmp_path / "results.html", page)
    assert window.texts("tbody a") == ["a", "b"]
    window.all("tbody a")[0].click()
    assert window.run("document.title") == "dialogues of a"
