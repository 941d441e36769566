"""README and manual: links and commands lead to what exists, and figures are those of the results."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.command_line import ROOT
from tests.support.manual import PAGES, blocks, check_command, commands

LINKED = [*PAGES, ROOT / "lab" / "README.md", *sorted(ROOT.glob("lab/*/README.md"))]
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


def measured(results: str) -> dict:
    """The results in results/, or of "lab/STUDY/NAME" in that study's folder."""
    folder, _, name = results.rpartition("/")
    folder = f"{folder}/results" if folder.startswith("lab/") else f"results/{folder}"
    return json.loads((ROOT / folder / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("page, part, column, results", [
    ("README.md", "results", 1, "mini/table2"), ("README.md", "results", 3, "mini_hard/table2"),
    ("docs/results.md", "results", 3, "mini/table2"), ("docs/results.md", "hard", 3, "mini_hard/table2"),
    ("docs/results.md", "ablations", 2, "mini_hard/table3"), ("docs/results.md", "quick_ablations", 2, "mini/table3"),
    ("docs/results.md", "stronger", 3, "mini/table4"),
    ("docs/results.md", "smollm2", 2, "lab/smollm2/table2"),
    ("docs/results.md", "untaught", 1, "lab/untaught/table"),
])  # fmt: skip
def test_the_success_rates_in_tables_are_those_of_the_results(page, part, column, results):
    success = {run["name"]: f"{100 * run['success']['mean']:.1f}" for run in measured(results)["runs"]}
    known = [row for row in shown(page, part) if row[0] in success]
    assert len(known) >= 3
    assert {row[0]: row[column] for row in known} == {row[0]: success[row[0]] for row in known}


@pytest.mark.parametrize(
    "page, part, results",
    [("docs/critics.md", "critics", "lab/critics/credit_study"), ("docs/results.md", "credit", "mini/credit")],
)
def test_the_accuracies_of_critics_in_tables_are_those_of_the_studies(page, part, results):
    study = measured(results)
    for name, *cells in shown(page, part):
        assert cells[:3] == [f"{100 * group['accuracy']:.1f}" for group in study[name]["groups"].values()], name


def test_the_critic_that_the_manual_shows_is_the_example():
    example = (ROOT / "docs/examples/short_turns.py").read_text(encoding="utf-8")
    assert f"```python\n{example}```" in (ROOT / "docs/critics.md").read_text(encoding="utf-8")
