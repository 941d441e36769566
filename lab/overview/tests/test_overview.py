"""The table and the differences of the page of results: by hand, and as committed."""

from __future__ import annotations

import json

import pytest

from lab.outcomes import shown
from lab.overview.overview import RESULTS, ROOT, difference, markdown, overview, runs, summary


def test_a_difference_is_a_paired_t_test_over_seeds():
    one = difference([3.0, 5.0, 7.0], [1.0, 4.0, 4.0])  # 2, 1, 3: mean 2, deviation 1
    half = 4.302653 / 3**0.5  # of t with two degrees of freedom
    assert one["mean"] == 2 and one["count"] == 3
    assert (one["low"], one["high"]) == (pytest.approx(2 - half, abs=1e-5), pytest.approx(2 + half, abs=1e-5))
    assert one["p"] == pytest.approx(0.0742, abs=1e-4)  # t = 3.4641
    assert "p" not in difference([1.0], [0.0])


@pytest.mark.parametrize(("gaps", "equal"), [
    ([0.1, -0.1, 0.0], True),
    ([1.9, 1.8, 1.9], True),  # another than 0, and still within the margin
    ([1.9, 2.0, 2.1], False),
    ([5.0, -5.0, 0.0], False),  # nothing is shown
])  # fmt: skip
def test_two_are_equal_only_if_that_is_shown(gaps, equal):
    assert summary(gaps)["equal"] is equal


def test_the_page_and_the_files_have_the_figures_of_the_studies():
    found = overview()
    assert json.loads((RESULTS / "overview.json").read_text(encoding="utf-8")) == json.loads(json.dumps(found))
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
