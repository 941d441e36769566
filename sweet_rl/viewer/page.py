"""The page as one HTML file without a script. Text that a model or a person wrote stays text.

Two walls: the template escapes every value, and its Content-Security-Policy lets nothing run and nothing load.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from sweet_rl.viewer.views import OUTCOMES, set_levels

FOLDER = Path(__file__).parent


def page_html(name: str, entries: Sequence[dict], notes: Sequence[str] = (), results: dict | None = None) -> str:
    """The page.

    Args:
        name: Name of the file, which is the title.
        entries: {dialogue: `dialogue_view`}, {turn: `turn_view`} or {pair: `pair_view`}.
        notes: Sentences about what is not shown.
        results: Table and figure (`results.read_results`).
    """
    has_credit = color(entries)
    style = "\n" + (FOLDER / "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode()
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=printable,
    )
    return environment.get_template("page.html.j2").render(
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'",
        style=Markup(style),
        name=name,
        entries=entries,
        notes=notes,
        results=results,
        has_credit=has_credit,
        choices=_choices(entries),
    )


def color(entries: Sequence[dict]) -> bool:
    """Give all credit on the page, and that of all tokens, its level of colour. Returns whether there is any."""
    messages = [message for entry in entries if "dialogue" in entry for message in entry["dialogue"]["messages"]]
    credits = [message["credit"] for message in messages if message.get("credit")]
    candidates = [candidate for entry in entries if "turn" in entry for candidate in entry["turn"]["candidates"]]
    scores = [candidate["credit"] for candidate in candidates if candidate["credit"]]
    set_levels(credits + scores)
    set_levels([token for credit in credits for token in credit.get("tokens", ())])
    return bool(credits)


def _choices(entries: Sequence[dict]) -> list[tuple[str, str, int]]:
    """The choices of the filter: (key, label, number of dialogues), without those of none."""
    counts = Counter(entry["dialogue"]["outcome"] for entry in entries if "dialogue" in entry)
    choices = [(key, label, counts[key]) for key, label in OUTCOMES.items() if counts[key]]
    return [("all", "all", len(entries)), *choices]


def printable(value: Any) -> Any:
    """A text in which each character that has no picture, or that turns the direction of others, is U+FFFD."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in value)
