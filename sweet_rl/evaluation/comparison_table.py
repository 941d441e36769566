"""A comparison as tables in plain text, Markdown and LaTeX, with the paper's figures beside one's own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from sweet_rl.evaluation.comparison import Comparison, Difference
from sweet_rl.evaluation.escaped import in_latex, in_markdown, one_line
from sweet_rl.evaluation.paper import paper_lines
from sweet_rl.evaluation.statistics import interval_text

FEW_TASKS = 30
WIDTH, FIRST = 100, 44  # characters of a line, and of the first column, at most
SEEDS_AND_TASKS = "quasi-F test over seeds and tasks, at least that of a t test over either"
TASKS_ONLY = "sign-flip test over tasks"


@dataclass(frozen=True)
class Table:
    """Rows of cells, the heading first. The `numbers` columns after the first are right-aligned.

    The cells are plain text in every form.
    """

    cells: list[list[str]]
    numbers: int

    def text(self) -> str:
        """Lines of at most WIDTH characters: columns that do not fit are blocks of their own below, under the names.

        In such a block a run without a cell has no line. Cells that are too long have several lines.
        """
        cells = [[_folded(one_line(cell), 0 if i else FIRST) for i, cell in enumerate(line)] for line in self.cells]
        widths = [max(len(part) for line in cells for part in line[i]) for i in range(len(cells[0]))]
        blocks: list[list[int]] = [[0]]
        for column in range(1, len(widths)):
            if len(blocks[-1]) > 1 and sum(widths[i] + 2 for i in [*blocks[-1], column]) - 2 > WIDTH:
                blocks.append([0])
            blocks[-1].append(column)
        return "\n\n".join(self._block(cells, widths, block, len(blocks) > 1) for block in blocks)

    def _block(self, cells: Sequence[list[list[str]]], widths: Sequence[int], columns: list[int], part: bool) -> str:
        lines: list[list[str]] = []
        for row in cells:
            if part and not any(row[i][0] for i in columns[1:]):
                continue
            high = max(len(row[i]) for i in columns)
            padded = [[*row[i], *[""] * (high - len(row[i]))] for i in columns]
            aligned = [
                [text.rjust(widths[i]) if 0 < i <= self.numbers else text.ljust(widths[i]) for text in texts]
                for i, texts in zip(columns, padded, strict=True)
            ]
            lines.append(["  ".join(texts).rstrip() for texts in zip(*aligned, strict=True)])
        heading, *rest = lines
        rule = "-" * max(len(text) for texts in lines for text in texts)
        return "\n".join([*heading, rule, *(text for texts in rest for text in texts)])

    def markdown(self) -> str:
        heading, *body = ["| " + " | ".join(map(in_markdown, line)) + " |" for line in self.cells]
        rule = "| --- |" + " ---: |" * self.numbers + " --- |" * (len(self.cells[0]) - 1 - self.numbers)
        return "\n".join([heading, rule, *body])

    def latex(self) -> str:
        """A tabular for the package booktabs."""
        heading, *body = [" & ".join(map(in_latex, line)) + r" \\" for line in self.cells]
        columns = "l" + "r" * self.numbers + "l" * (len(self.cells[0]) - 1 - self.numbers)
        lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", heading, r"\midrule", *body, r"\bottomrule"]
        return "\n".join([*lines, r"\end{tabular}"])


def _folded(cell: str, width: int) -> list[str]:
    """The cell as lines of at most this width; 0 for what is left beside the first column."""
    return wrap(cell, width or WIDTH - FIRST - 2) or [""]


def tables(comparison: Comparison, paper: Mapping[str, Mapping[str, Any]] | None = None) -> list[Table]:
    """The table of runs and, if runs were compared along chains, the table of steps.

    Args:
        comparison: The compared runs.
        paper: The paper's figures in percent by run name, with the model of each, e.g. {"SWEET-RL": {"model":
            "Llama-3.1-8B-Instruct", "tests": 56.8, "success": 40.4}}. Rows of the paper that no run is named after
            follow at the end.
    """
    return [_runs(comparison, paper or {}), *([_steps(comparison)] if comparison.steps else [])]


def note(comparison: Comparison) -> str:
    """How to read the figures: tasks, seeds, intervals, tests."""
    differences = [*comparison.against.values(), *comparison.steps]
    several = any(row.seeds > 1 for row in comparison.rows)
    text = f"{comparison.tasks} tasks; intervals: 95 %, bootstrap over {'seeds and tasks' if several else 'tasks'}"
    if any(row.main.mean in (0, 1) for row in comparison.rows):
        text += ", Wilson's over tasks at 0 and 100 %"
    if several:
        text += "; ±: standard deviation over seeds"
    if differences:
        paired = {d.seeds > 1 for d in differences}
        tests = [name for kind, name in ((True, SEEDS_AND_TASKS), (False, TASKS_ONLY)) if kind in paired]
        text += f"; p: {' or '.join(tests)}, Holm-corrected; wins: ties count half"
    humans = {human for row in comparison.rows for human in row.humans}
    if len(humans) == 1:
        text += f"; simulated human: {humans.pop()}"
    if encoder := comparison.grader.get("encoder"):
        text += f"; similarity by {encoder}"
    if comparison.left_out:
        text += f". Tasks left out because a run has no graded dialogue of them: {len(comparison.left_out)}"
    text += "."
    if comparison.tasks < FEW_TASKS:
        text += f" With fewer than {FEW_TASKS} tasks this shows that the steps run, not which method is better."
    if not several:
        text += " One seed per run: the intervals do not cover another training."
    elif unpaired := [f"{d.better} and {d.worse}" for d in differences if d.seeds == 1]:
        text += f" Different numbers of seeds, compared over tasks only: {'; '.join(unpaired)}."
    return text


def as_text(comparison: Comparison, paper: Mapping | None = None) -> str:
    made = "\n\n".join([table.text() for table in tables(comparison, paper)])
    return "\n".join([made, *map(one_line, [note(comparison), *_paper_lines(comparison, paper)])])


def as_markdown(comparison: Comparison, paper: Mapping | None = None) -> str:
    made = [*(table.markdown() for table in tables(comparison, paper)), in_markdown(note(comparison))]
    if lines := _paper_lines(comparison, paper):
        first, *items = lines
        made += [in_markdown(first), "\n".join(f"- {in_markdown(item.removeprefix('- '))}" for item in items)]
    return "\n\n".join(filter(None, made)) + "\n"


def as_latex(comparison: Comparison, paper: Mapping | None = None) -> str:
    made = "\n\n".join(table.latex() for table in tables(comparison, paper))
    comments = "".join(f"% {one_line(line)}\n" for line in [note(comparison), *_paper_lines(comparison, paper)])
    return f"{comments}{made}\n"


def _paper_lines(comparison: Comparison, paper: Mapping | None) -> list[str]:
    return paper_lines(comparison.to_dict()) if paper else []


def _runs(comparison: Comparison, paper: Mapping[str, Mapping[str, Any]]) -> Table:
    code = comparison.measure == "success"
    names = [("tests", "tests passed %"), ("success", "success %")] if code else [("cosine", f"{comparison.measure} %")]
    shown = [(key, heading) for key, heading in names if any(key in figures for figures in paper.values())]
    spread = any(row.spread is not None for row in comparison.rows)
    tokens = any(row.tokens is not None for row in comparison.rows)
    heading = ["run", "seeds", *(heading for _, heading in names), *(["±"] if spread else []), "95 % interval"]
    failed = any(row.failed for row in comparison.rows)
    heading += [
        *(["failed"] if failed else []),
        "turns",
        *(["agent tokens"] if tokens else []),
        *(f"paper: {text}" for _, text in shown),
    ]
    numbers = len(heading) - 1
    models = bool(shown) and any("model" in figures for figures in paper.values())
    heading += ["paper: model"] if models else []
    heading += [f"{comparison.measure} vs {name}" for name in comparison.baselines]
    mixed = len({human for row in comparison.rows for human in row.humans}) > 1
    heading += ["simulated human"] if mixed else []
    cells = [heading]
    for row in comparison.rows:
        line = [
            row.name,
            str(row.seeds),
            *([f"{100 * row.tests_passed.mean:.1f}"] if code and row.tests_passed else []),
        ]
        line += [f"{100 * row.main.mean:.1f}"]
        line += [("" if row.spread is None else f"{100 * row.spread:.1f}")] if spread else []
        line += [interval_text(row.main.low, row.main.high)]
        line += [f"{row.failed} of {row.dialogues}"] if failed else []
        line += [f"{row.turns:.2f}"]
        line += [("" if row.tokens is None else f"{row.tokens:.0f}")] if tokens else []
        line += _of_paper(paper.get(row.name, {}), [key for key, _ in shown], models)
        line += [_difference(comparison.against.get((row.name, baseline))) for baseline in comparison.baselines]
        line += [", ".join(row.humans)] if mixed else []
        cells.append(line)
    known = {row.name for row in comparison.rows}
    after = len(comparison.baselines) + mixed
    empty = len(heading) - 1 - len(shown) - models - after
    for name, figures in paper.items():
        values = _of_paper(figures, [key for key, _ in shown], models)
        if name not in known and any(values):
            cells.append([name, *[""] * empty, *values, *[""] * after])
    return Table(cells, numbers)


def _steps(comparison: Comparison) -> Table:
    heading = ["step", "difference", "95 % interval", "p (Holm)", "wins %", "significant at 5 %"]
    lines = [
        [
            f"{step.better} over {step.worse}",
            f"{100 * step.difference.mean:+.1f}",
            interval_text(step.difference.low, step.difference.high, "+"),
            _p(step.p_holm),
            f"{100 * step.wins.mean:.1f}",
            step.significant,
        ]
        for step in comparison.steps
    ]
    return Table([heading, *lines], len(heading) - 1)


def _of_paper(figures: Mapping[str, Any], keys: Sequence[str], with_model: bool) -> list[str]:
    """The cells of a row of the paper; all are empty if it has none of these figures."""
    values = [f"{figures[key]:.1f}" if key in figures else "" for key in keys]
    return [*values, *([str(figures.get("model", "")) if any(values) else ""] if with_model else [])]


def _difference(against: Difference | None) -> str:
    if against is None:
        return ""
    d, p = against.difference, _p(against.p_holm)
    interval = f"{100 * d.mean:+.1f} ({interval_text(d.low, d.high, '+')})"
    return f"{interval}, p {p if p.startswith('<') else '= ' + p}, wins {100 * against.wins.mean:.0f} %"


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
