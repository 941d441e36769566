"""The table and the differences of the page of results."""

from __future__ import annotations

import pytest

from lab.outcomes import ROOT, difference, runs, shown
from lab.overview.overview import RESULTS, markdown, overview


def test_the_page_and_the_files_have_the_figures_of_the_studies():
    found = overview()
    assert (RESULTS / "overview.md").read_text(encoding="utf-8") == markdown(found)
    table = markdown(found).split("\n\n")[0]
    assert table in (ROOT / "docs/results.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("file", "without"), [
    ("mini/table3", "without training-time information"),
    ("mini_hard/table3", "without training-time information"),
    ("mini_hard/replication_2", "without training-time information"),
    ("mini/table3", "without length normalisation"),
    ("mini_hard/table3", "without length normalisation"),
])  # fmt: skip
def test_the_ablations_of_the_page_are_paired_differences(file, without):
    found = runs(f"results/{file}.json")
    page = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    assert shown(difference(found["SWEET-RL"][1], found[without][1])) in page
