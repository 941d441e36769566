"""Tables in plain text, Markdown and LaTeX; a comparison as such tables, with the paper's figures beside one's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tabulate import tabulate

from sweet_rl.evaluation.paper import paper_lines
from sweet_rl.evaluation.statistics import interval_text
from sweet_rl.runs.errors import printable

FEW_TASKS = 30
SEEDS_AND_TASKS = "the largest p of a quasi-F test and of two t tests, over seeds and over tasks"
TASKS_ONLY = "sign-flip test over tasks"
PAPER_COLUMNS = {
    "success": {"tests": "tests passed %", "success": "success %"},
    "similarity": {"cosine": "similarity %"},
}
"""Headings of the paper's figures by their field in configs/paper/results.yaml, by the measure of the runs."""


@dataclass(frozen=True)
class Table:
    """Rows of cells, the heading first. The `numbers` columns after the first are right-aligned."""

    cells: list[list[str]]
    numbers: int

    def text(self) -> str:
        """The table for a terminal. Control characters in cells are escaped."""
        return printable(self._in_form("simple"))

    def markdown(self) -> str:
        """The table in Markdown. Markup in cells is kept."""
        return self._in_form("pipe")

    def latex(self) -> str:
        """The table as a tabular for the package booktabs."""
        return self._in_form("latex_booktabs")

    def _in_form(self, form: str) -> str:
        heading, *rows = self.cells
        words = len(heading) - 1 - self.numbers
        alignment = ["left", *["right"] * self.numbers, *["left"] * words]
        return tabulate(rows, heading, tablefmt=form, colalign=alignment, disable_numparse=True)


def as_text(comparison: Mapping, paper: Mapping | None = None) -> str:
    """The tables of a comparison and how to read them, for a terminal."""
    made = [table.text() for table in tables(comparison, paper)]
    return "\n\n".join([*made, printable("\n".join(_notes(comparison, paper)))])


def as_markdown(comparison: Mapping, paper: Mapping | None = None) -> str:
    """The same in Markdown."""
    made = [table.markdown() for table in tables(comparison, paper)]
    return "\n\n".join([*made, *_notes(comparison, paper)]) + "\n"


def as_latex(comparison: Mapping, paper: Mapping | None = None) -> str:
    """The same in LaTeX; how to read the tables stands in comments above them."""
    comments = [f"% {note}" for note in _notes(comparison, paper)]
    return "\n".join([*comments, "\n\n".join(table.latex() for table in tables(comparison, paper))]) + "\n"


def tables(comparison: Mapping, paper: Mapping[str, Mapping[str, Any]] | None = None) -> list[Table]:
    """The table of runs and, if runs were compared along chains, the table of steps.

    Args:
        comparison: What `compare` returns.
        paper: The paper's figures in percent by run name, with the model of each, e.g. {"SWEET-RL": {"model":
            "Llama-3.1-8B-Instruct", "tests": 56.8, "success": 40.4}}. Rows of the paper that no run is named after
            follow at the end.
    """
    return [_runs(comparison, paper or {}), *([_steps(comparison)] if comparison["steps"] else [])]


def note(comparison: Mapping) -> str:
    """How to read the figures: tasks, seeds, intervals, tests."""
    runs, steps = comparison["runs"], comparison["steps"]
    pairs = [(run["name"], name, gap["seeds"]) for run in runs for name, gap in run["difference_to"].items()]
    pairs += [(step["better"], step["worse"], step["seeds"]) for step in steps]
    several = any(run["seeds"] > 1 for run in runs)
    text = f"{comparison['tasks']} tasks; intervals: 95 %, bootstrap over {'seeds and tasks' if several else 'tasks'}"
    if any(run[comparison["measure"]]["mean"] in (0, 1) for run in runs):
        text += ", Wilson's over tasks at 0 and 100 %"
    if several:
        text += "; ±: standard deviation over seeds"
    if pairs:
        paired = {seeds > 1 for *_, seeds in pairs}
        tests = [name for kind, name in ((True, SEEDS_AND_TASKS), (False, TASKS_ONLY)) if kind in paired]
        text += f"; p: {' or '.join(tests)}, Holm-corrected; wins: ties count half"
    humans = _humans(comparison)
    if len(humans) == 1:
        text += f"; simulated human: {humans.pop()}"
    if encoder := comparison["grader"].get("encoder"):
        text += f"; similarity by {encoder}"
    if comparison["left_out_tasks"]:
        text += f". Tasks left out because a run has no graded dialogue of them: {len(comparison['left_out_tasks'])}"
    text += "."
    if comparison["tasks"] < FEW_TASKS:
        text += f" With fewer than {FEW_TASKS} tasks this shows that the steps run, not which method is better."
    if not several:
        text += " One seed per run: the intervals do not cover another training."
    elif unpaired := [f"{better} and {worse}" for better, worse, seeds in pairs if seeds == 1]:
        text += f" Different numbers of seeds, compared over tasks only: {'; '.join(unpaired)}."
    return text


def _notes(comparison: Mapping, paper: Mapping | None) -> list[str]:
    notes = [note(comparison), *(paper_lines(comparison) if paper else [])]
    if "settings" in comparison:
        notes.append(f"Settings: {comparison['settings']}.")
    return notes


def _humans(comparison: Mapping) -> set[str]:
    return {human for run in comparison["runs"] for human in run["humans"]}


def _runs(comparison: Mapping, paper: Mapping[str, Mapping[str, Any]]) -> Table:
    runs, measure = comparison["runs"], comparison["measure"]
    of_paper = {name: _paper_row(figures, PAPER_COLUMNS.get(measure, {})) for name, figures in paper.items()}
    mixed = len(_humans(comparison)) > 1
    rows = [_row(run, measure, mixed) | of_paper.pop(run["name"], {}) for run in runs]
    rows += [{"run": name, **row} for name, row in of_paper.items() if row]
    numbers = ["seeds", "tests passed %", f"{measure} %", "±", "95 % interval", "failed", "turns", "agent tokens"]
    numbers += [f"paper: {heading}" for heading in PAPER_COLUMNS.get(measure, {}).values()]
    words = ["paper: model", *(f"{measure} vs {name}" for name in comparison["baselines"]), "simulated human"]
    numbers, words = ([name for name in part if any(row.get(name) for row in rows)] for part in (numbers, words))
    headings = ["run", *numbers, *words]
    return Table([headings, *([row.get(name, "") for name in headings] for row in rows)], len(numbers))


def _row(run: Mapping[str, Any], measure: str, mixed: bool) -> dict[str, str]:
    """The cells of a run by heading."""
    row = {
        "run": run["name"],
        "seeds": str(run["seeds"]),
        f"{measure} %": f"{100 * run[measure]['mean']:.1f}",
        "95 % interval": interval_text(run[measure]["low"], run[measure]["high"]),
        "failed": f"{run['failed']} of {run['dialogues']}" if run["failed"] else "",
        "turns": f"{run['turns']:.2f}",
        "simulated human": ", ".join(run["humans"]) if mixed else "",
    }
    if "tests_passed" in run:
        row["tests passed %"] = f"{100 * run['tests_passed']['mean']:.1f}"
    if run[f"{measure}_spread"] is not None:
        row["±"] = f"{100 * run[f'{measure}_spread']:.1f}"
    if run["tokens"] is not None:
        row["agent tokens"] = f"{run['tokens']:.0f}"
    for name, gap in run["difference_to"].items():
        row[f"{measure} vs {name}"] = _difference(gap, run["wins_against"][name])
    return row


def _paper_row(figures: Mapping[str, Any], known: Mapping[str, str]) -> dict[str, str]:
    """The cells of a row of the paper; empty if it has none of the figures `known`."""
    cells = {f"paper: {heading}": f"{figures[key]:.1f}" for key, heading in known.items() if key in figures}
    return cells | {"paper: model": str(figures.get("model", ""))} if cells else {}


def _steps(comparison: Mapping) -> Table:
    heading = ["step", "difference", "95 % interval", "p (Holm)", "wins %", "significant at 5 %"]
    rows = [
        [
            f"{step['better']} over {step['worse']}",
            f"{100 * step['difference']['mean']:+.1f}",
            interval_text(step["difference"]["low"], step["difference"]["high"], "+"),
            _p(step["p_holm"]),
            f"{100 * step['wins']['mean']:.1f}",
            step["significant"],
        ]
        for step in comparison["steps"]
    ]
    return Table([heading, *rows], len(heading) - 1)


def _difference(gap: Mapping[str, float], wins: Mapping[str, float]) -> str:
    p = _p(gap["p_holm"])
    interval = f"{100 * gap['mean']:+.1f} ({interval_text(gap['low'], gap['high'], '+')})"
    return f"{interval}, p {p if p.startswith('<') else '= ' + p}, wins {100 * wins['mean']:.0f} %"


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
