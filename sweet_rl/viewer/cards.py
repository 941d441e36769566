"""Pages of run cards: the models of one call side by side, and a leaderboard of many cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sweet_rl.evaluation.leaderboard import EXPLANATION, NOT_COMPARABLE, Entry, Group
from sweet_rl.evaluation.run_card import RunCard
from sweet_rl.viewer.html_file import escaped, html_file
from sweet_rl.viewer.report_charts import Html, interval_bar, joined, tag


def card_page(card: RunCard, links: Mapping[str, str]) -> str:
    """The page of one card as HTML.

    Args:
        card: The card.
        links: Address of the page with each model's dialogues, by its name.
    """
    group = Group([Entry(row, card, "results.json") for row in card.models])
    body = [
        tag("header", tag("p", "ColBench run card", class_="kicker"), tag("h1", group.title), class_="top"),
        tag("section", tag("h2", "Models"), _table(group, links)),
        tag("section", tag("h2", "Measured with"), _facts(card)),
    ]
    return _page(f"ColBench: {', '.join(row['name'] for row in card.models)}", body)


def leaderboard_page(groups: Sequence[Group]) -> str:
    """The leaderboard as HTML. Names in cards are text there, whatever they hold."""
    title, lead = tag("h1", "ColBench leaderboard"), tag("p", EXPLANATION, class_="lead")
    body = [tag("header", tag("p", "Run cards", class_="kicker"), title, lead, class_="top")]
    for group in groups:
        notes: list[Html] = []
        if group.differences:
            listed = tag("ul", [tag("li", text) for text in group.differences])
            notes = [tag("div", tag("p", NOT_COMPARABLE), listed, class_="unfinished", role="note")]
        body.append(tag("section", tag("h2", group.title), notes, _table(group, {})))
    return _page("ColBench leaderboard", body)


def _table(group: Group, links: Mapping[str, str]) -> Html:
    heading = group.heading()[:-3]
    rows = []
    for entry in group.entries:
        name, score, interval, *others, version, date, source = entry.cells()
        figure: Any = entry.row["score"]
        link = links.get(entry.row["name"])
        origin = [source, Html("<br>"), f"sweet_rl {version}, {date}"]
        cells = [
            tag("th", name if link is None else tag("a", name, href=link), tag("small", *origin), scope="row"),
            tag("td", tag("b", score), tag("small", f"{figure['tasks']} tasks")),
            tag("td", interval_bar(figure, f"{score} %, 95 % interval {interval}"), tag("small", interval)),
            *[tag("td", text, data_label=label) for text, label in zip(others, heading[3:], strict=True)],
        ]
        rows.append(tag("tr", cells))
    table = tag(
        "table", tag("thead", tag("tr", [tag("th", text, scope="col") for text in heading])), tag("tbody", rows)
    )
    return tag("div", table, class_="scroll results", tabindex="0", role="region", aria_label=group.title)


def _facts(card: RunCard) -> Html:
    shown = {
        "protocol": {"name": card.protocol["name"], **card.protocol["files"]},
        "human": card.human,
        "sampling": card.sampling,
        "grader": card.grader | ({"browser": card.browser} if card.browser else {}),
        "tasks": card.tasks,
        "package": {"sweet_rl": card.version, "date": card.date},
    }
    rows = [
        tag("tr", tag("th", f"{name}: {key}", scope="row"), tag("td", str(value)))
        for name, values in shown.items()
        for key, value in values.items()
        if value is not None
    ]
    return tag("div", tag("table", tag("tbody", rows)), class_="scroll results", tabindex="0", role="region")


def _page(title: str, body: Sequence[Html]) -> str:
    return html_file(
        "report.html", ("viewer.css", "report.css"), (), generator="", title=escaped(title), body=joined(body), data=""
    )
