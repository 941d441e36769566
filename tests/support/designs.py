"""Dialogues about two small pages, with drafts, as files of the pipeline."""

from __future__ import annotations

from sweet_rl.dialogues import ANSWER_MARKER
from sweet_rl.runs.records import Task, Trajectory


def page(header: str, heading: str, footer: str = "") -> str:
    """The HTML of a page with a coloured header, a heading and, if wanted, a coloured footer."""
    end = f'<footer style="background:{footer};height:60px">Contact</footer>' if footer else ""
    top = f'<header style="background:{header};height:90px;color:white">Sunny Bakery</header>'
    return f'<html><body style="margin:0">{top}<h1>{heading}</h1>{end}</body></html>'


REFERENCE = page("navy", "Fresh bread every day", "teal")
SAID = ("The header should be dark blue.", "There is a footer missing.")


def designs() -> list[Trajectory]:
    """Two dialogues about one page: the first hands in the reference page, the second another page too early."""
    task = Task("I need a page for a bakery.", REFERENCE)
    drafts = [page("crimson", "Fresh bread every day"), page("navy", "Fresh bread every day")]
    return [
        _dialogue(task, 0, [drafts[0], drafts[1], f"{ANSWER_MARKER}\n{REFERENCE}"], ["repairs", "repairs", "complete"]),
        _dialogue(task, 1, [drafts[1], f"{ANSWER_MARKER}\n{drafts[0]}"], ["repairs", "early"]),
    ]


def _dialogue(task: Task, sample: int, turns: list[str], words: list[str]) -> Trajectory:
    history = [{"role": "user", "content": task.problem_description}]
    for number, (turn, word) in enumerate(zip(turns, words, strict=True)):
        history.append({"role": "assistant", "content": turn, "oracle": word})
        if number < len(turns) - 1:
            history.append({"role": "user", "content": SAID[number]})
    answer = turns[-1].partition(ANSWER_MARKER)[2].strip()
    return Trajectory(task, history, answer, id=f"{task.id}-{sample}", ending="answered")
