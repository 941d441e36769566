"""README and manual: links and commands lead to what exists, and figures are those of the results."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.command_line import ROOT
from tests.support.manual import PAGES, blocks, check_command, commands

LINKED = [*PAGES, ROOT / "results" / "README.md", ROOT / "lab" / "README.md", *sorted(ROOT.glob("lab/*/README.md"))]
LINK = re.compile(r'\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset|href)="([^"]+)"')


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKED, ids=named)
def test_links_lead_to_files_and_headings_that_exist(page):
    for link in map("".join, LINK.findall(page.read_text(encoding="utf-8"))):
        if "://" not in link:
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), link
            assert not anchor or target.suffix == ".png" or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_is_one_that_its_program_takes(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    for language, text in blocks(page):
        if language == "bash":
            for variables, words in commands(text):
                check_command(variables, words)


def shown(page: str, part: str) -> list[list[str]]:
    """The cells of the rows of a table between the marks of its part."""
    table = (ROOT / page).read_text(encoding="utf-8").split(f"{part}:begin -->")[1].split(f"<!-- {part}:end")[0]
    rows = [[cell.strip() for cell in line.replace("*", "").strip("|").split("|")] for line in table.splitlines()]
    return [row for row in rows if len(row) > 1][2:]


def results_file(results: str, ending: str) -> Path:
    """The file of "mini/table2" (in results/) or of "lab/pretraining/share_0" (in that study's results/)."""
    folder, _, name = results.rpartition("/")
    return ROOT / (f"{folder}/results" if folder.startswith("lab/") else f"results/{folder}") / f"{name}.{ending}"


def measured(results: str) -> dict:
    return json.loads(results_file(results, "json").read_text(encoding="utf-8"))


def successes(results: str) -> dict[str, str]:
    return {run["name"]: f"{100 * run['success']['mean']:.1f}" for run in measured(results)["runs"]}


@pytest.mark.parametrize("page, part, column, results", [
    ("results/README.md", "results", 2, "mini/table2"), ("results/README.md", "hard", 2, "mini_hard/table2"),
    ("results/README.md", "hard_ablations", 2, "mini_hard/table3"),
    ("results/README.md", "quick_ablations", 2, "mini/table3"),
    ("results/README.md", "stronger", 2, "mini/table4"),
])  # fmt: skip
def test_the_figures_in_the_readme_and_the_manual_are_those_of_the_results(page, part, column, results):
    success = successes(results)
    rows = {row[0]: row[column] for row in shown(page, part)}
    assert len(rows) >= 4
    assert rows == {name: success[name] for name in rows}


@pytest.mark.parametrize("part, results, number", [
    ("acting", "mini/figure3a", 3), ("shares", "mini/figure3b", 3),
])  # fmt: skip
def test_the_points_of_figures_in_the_manual_are_those_of_the_results(part, results, number):
    success = successes(results)
    rows = shown("results/README.md", part)
    assert len(rows) == number
    for name, *cells in rows:
        assert cells == [value for run, value in success.items() if run.startswith(f"{name}@")]


@pytest.mark.parametrize("page, part, results, least", [
    ("lab/critics/README.md", "critics", "lab/critics/credit_study", 8),
    ("results/README.md", "credit", "mini/credit", 8),
])  # fmt: skip
def test_the_accuracies_of_critics_in_the_manual_are_those_of_the_studies(page, part, results, least):
    study = measured(results)
    rows = shown(page, part)
    assert len(rows) >= least
    for name, *cells in rows:
        groups = study[name]["groups"].values()
        assert cells[:3] == [f"{100 * group['accuracy']:.1f}" for group in groups], name


def test_the_online_rounds_in_the_manual_are_those_of_the_results():
    success, rows = successes("lab/policy_gradients/online"), shown("results/README.md", "online")
    assert len(rows) == 5
    for name, *cells in rows:
        assert cells == [success[f"{name}@{number}"] for number in (0, 200, 400)], name


def test_the_critic_that_the_manual_shows_is_the_example():
    example = (ROOT / "docs/examples/short_turns.py").read_text(encoding="utf-8")
    assert f"```python\n{example}```" in (ROOT / "docs/critics.md").read_text(encoding="utf-8")
