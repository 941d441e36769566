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


SHOWN_AS = {
    "SWEET-RL (the release's reference)": "SWEET-RL",
    "SWEET-RL (the paper's reference)": "SWEET-RL (seed model as reference)",
    "SWEET-RL (mean)": "SWEET-RL",
    "without length normalisation (sum)": "without length normalisation",
}


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
    ("results/README.md", "results", 3, "mini/table2"), ("results/README.md", "hard", 3, "mini_hard/table2"),
    ("results/README.md", "ablations", 2, "mini_hard/table3"),
    ("results/README.md", "quick_ablations", 2, "mini/table3"),
    ("results/README.md", "stronger", 3, "mini/table4"),
    ("results/README.md", "policies", 4, "lab/critics/credit_study_policies"),
    ("results/README.md", "smollm2", 2, "lab/smollm2/table2"),
    ("results/README.md", "untaught", 1, "lab/pretraining/share_0"),
    ("results/README.md", "untaught_belief", 1, "lab/pretraining/belief"),
])  # fmt: skip
def test_the_figures_in_the_readme_and_the_manual_are_those_of_the_results(page, part, column, results):
    success = successes(results)
    if results == "lab/smollm2/table2":
        success |= successes("lab/smollm2/table3")
    rows = {SHOWN_AS.get(row[0], row[0]): row[column] for row in shown(page, part)}
    assert len(rows) >= 4
    assert rows == {name: success[name] for name in rows}


@pytest.mark.parametrize("part, results, number", [
    ("acting", "mini/figure3a", 3), ("shares", "mini/figure3b", 3), ("lesson", "lab/pretraining/shares", 6),
])  # fmt: skip
def test_the_points_of_figures_in_the_manual_are_those_of_the_results(part, results, number):
    success = successes(results)
    rows = shown("results/README.md", part)
    assert len(rows) == number
    for shown_as, *cells in rows:
        name = SHOWN_AS.get(shown_as, shown_as)
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


def test_the_replication_in_the_manual_is_that_of_the_results():
    series = []
    for name in ("table2", "replication", "replication_2"):
        steps = measured(f"mini_hard/{name}")["steps"]
        series.append({f"{step['better']} over {step['worse']}": step for step in steps})
    rows = shown("results/README.md", "replication")
    assert [row[0] for row in rows] == list(series[-1])
    for name, *cells in rows:
        for cell, steps in zip(cells, series, strict=True):
            step = steps.get(name)
            assert cell == (step and _with_interval(step["difference"]) + f", p = {step['p_holm']:.3f}" or "")


def _with_interval(difference: dict) -> str:
    mean, low, high = (f"{100 * difference[part]:+.1f}" for part in ("mean", "low", "high"))
    return f"{mean} ({low} to {high})"


def test_the_web_pages_in_the_manual_are_those_of_the_results():
    runs = {run["name"]: run for run in measured("lab/pages/pages")["runs"]}
    rows = shown("results/README.md", "pages")
    assert [row[0] for row in rows] == list(runs)
    for name, similarity, _, turns, against in rows:
        run = runs[name]
        assert (similarity, turns) == (f"{100 * run['similarity']['mean']:.1f}", f"{run['turns']:.2f}")
        if dpo := run["difference_to"].get("multi-turn DPO"):
            mean, low, high = (f"{100 * dpo[part]:+.1f}" for part in ("mean", "low", "high"))
            assert against == f"{mean} ({low} to {high}), p = {dpo['p_holm']:.3f}"
    accuracy = measured("lab/pages/pages_credit")
    for name, *cells in shown("results/README.md", "pages_credit"):
        assert cells == [f"{100 * group['accuracy']:.1f}" for group in accuracy[name]["groups"].values()], name


def test_the_online_rounds_in_the_manual_are_those_of_the_results():
    success, rows = successes("lab/policy_gradients/online"), shown("results/README.md", "online")
    assert len(rows) == 5
    for name, *cells in rows:
        assert cells == [success[f"{name}@{number}"] for number in (0, 200, 400)], name


@pytest.mark.parametrize(
    "picture, results", [("online", "lab/policy_gradients/online"), ("taught", "lab/pretraining/shares")]
)
def test_the_figures_of_the_manual_are_those_of_the_results(picture, results):
    shown_there = (ROOT / "docs" / "pictures" / f"{picture}.png").read_bytes()
    assert shown_there == results_file(results, "png").read_bytes()


def test_the_critic_that_the_manual_shows_is_the_example():
    example = (ROOT / "docs/examples/short_turns.py").read_text(encoding="utf-8")
    assert f"```python\n{example}```" in (ROOT / "docs/critics.md").read_text(encoding="utf-8")
