"""A leaderboard of run cards: those that compare stand in one table, and each other table says what differs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import fill
from typing import Any

from sweet_rl.evaluation.comparison_table import WIDTH, Table
from sweet_rl.evaluation.escaped import in_markdown, one_line
from sweet_rl.evaluation.run_card import ModelRow, RunCard
from sweet_rl.evaluation.statistics import interval_text
from sweet_rl.runs.records import content_id

DOMAINS = {"code": "Backend Programming", "html": "Frontend Design"}
HEADING = (
    "model",
    "{measure} %",
    "95 % interval",
    "failed counts as 0",
    "tests passed %",
    "failed",
    "excluded",
    "leaks per dialogue",
    "turns",
    "version",
    "date",
    "card",
)


@dataclass(frozen=True)
class Entry:
    """A model of a card.

    Attributes:
        row: Its figures.
        card: Its card.
        source: File of the card.
    """

    row: ModelRow
    card: RunCard
    source: str

    @property
    def name(self) -> str:
        """The model's name, with those in the server's replies and the fields of its requests if it has some."""
        words = [self.row["name"]]
        if served := self.row.get("served_as"):
            words.append(f"({', '.join(served)})")
        if self.row["request"]:
            words.append(json.dumps(self.row["request"], sort_keys=True))
        return " ".join(words)

    def cells(self) -> list[str]:
        """The cells of its row, as HEADING names them."""
        score, zero, tests = self.row["score"], self.row["failed_as_0"], self.row.get("tests_passed")
        return [
            self.name,
            f"{100 * score['mean']:.1f}",
            interval_text(score["low"], score["high"]),
            f"{100 * zero['mean']:.1f} ({interval_text(zero['low'], zero['high'])})",
            "" if tests is None else f"{100 * tests:.1f}",
            str(self.row["failed"]),
            str(self.row["excluded"]),
            f"{self.row['leaks_per_dialogue']:.2f}",
            f"{self.row['turns']:.1f}",
            self.card.version,
            self.card.date[:10],
            self.source,
        ]


@dataclass
class Group:
    """Cards that compare.

    Attributes:
        entries: Their models, the best first.
        differences: What differs from the first group of the domain, in words; empty for that group.
    """

    entries: list[Entry] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)

    @property
    def card(self) -> RunCard:
        """One of the cards, which agree in `facts`."""
        return self.entries[0].card

    @property
    def title(self) -> str:
        """Domain, number of tasks, protocol and human."""
        card = self.card
        domain = DOMAINS.get(card.task_type, card.task_type)
        tasks, human = card.tasks["number"], card.human["name"]
        return f"{domain}: {tasks} tasks, protocol {card.protocol['name']}, human {human}"

    def heading(self) -> list[str]:
        """The heading of its table."""
        return [text.format(measure=self.card.measure) for text in HEADING]

    def table(self) -> Table:
        """A line for each model; the last three columns are words."""
        cells = [self.heading(), *(entry.cells() for entry in self.entries)]
        return Table(cells, len(HEADING) - 4)


def facts(card: RunCard) -> dict[str, Any]:
    """What has to be equal if two figures are to be compared."""
    return {
        "domain": card.task_type,
        "protocol": card.protocol,
        "human": {name: card.human[name] for name in ("name", "hash")},
        "grader": card.grader,
        "tasks": {"number": card.tasks["number"], "content": card.tasks["content"]},
        "sampling": card.sampling,
    }


def grouped(cards: Mapping[str, RunCard]) -> list[Group]:
    """The groups of cards (by their file) that compare: in each domain the one with the most models first."""
    groups: dict[str, Group] = {}
    for source, card in cards.items():
        known = facts(card)
        known["human"] = card.human["hash"]  # a human is its hash, whatever its name
        group = groups.setdefault(content_id(known), Group())
        group.entries += [Entry(row, card, source) for row in card.models]
    for group in groups.values():
        group.entries.sort(key=lambda entry: -entry.row["score"]["mean"])
    order = sorted(groups.values(), key=lambda group: (group.card.task_type, -len(group.entries)))
    first: dict[str, Group] = {}
    for group in order:
        main = first.setdefault(group.card.task_type, group)
        group.differences = differences(group.card, main.card)
    return order


def differences(card: RunCard, other: RunCard) -> list[str]:
    """What keeps the figures of a card from being compared with those of another one, one line each."""
    own, others = _flat(facts(card)), _flat(facts(other))
    return [
        f"{name}: {_shown(own.get(name))} instead of {_shown(others.get(name))}"
        for name in [*own, *(name for name in others if name not in own)]
        if own.get(name) != others.get(name)
    ]


def as_markdown(groups: Sequence[Group]) -> str:
    """The leaderboard in Markdown. Names are text there, whatever they hold."""
    lines = ["# ColBench leaderboard", "", EXPLANATION]
    for group in groups:
        lines += ["", f"## {in_markdown(group.title)}", ""]
        if group.differences:
            lines += [NOT_COMPARABLE, "", *(f"- {in_markdown(text)}" for text in group.differences), ""]
        lines.append(group.table().markdown())
    return "\n".join(lines) + "\n"


def as_text(groups: Sequence[Group]) -> str:
    """The leaderboard for a terminal."""
    lines = [fill(EXPLANATION, WIDTH)]
    for group in groups:
        lines += ["", one_line(group.title)]
        if group.differences:
            lines += [NOT_COMPARABLE, *(fill(f"- {one_line(text)}", WIDTH) for text in group.differences)]
        lines += ["", group.table().text()]
    return "\n".join(lines) + "\n"


EXPLANATION = (
    "Figures are compared only within a table: protocol, prompts, simulated human, grader, tasks and sampling are "
    "equal there. Failed dialogues are left out of the first figure. Excluded ones cannot be graded."
)
NOT_COMPARABLE = "Not to be compared with the first table of this domain, because these differ:"


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name} ") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value[:12] if re.fullmatch(r"[0-9a-f]{64}", value) else value
    return "(none)" if value is None else json.dumps(value)
