"""How good simulated humans are, measured on the replies in their dialogues."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.simulated_humans.claims import claimed_solution
from lab.simulated_humans.replies import does_not_know, ends_help
from sweet_rl.dialogues import Grader
from sweet_rl.dialogues.leaks import gives_away, holds_markup
from sweet_rl.evaluation.table import Table
from sweet_rl.runs.records import Task, Trajectory

HEADING = (
    "human",
    "dialogues",
    "replies",
    "characters",
    "leaks %",
    "rejected drafts %",
    "“I don't know” %",
    "of these settled %",
    "ends the help %",
    "checked",
    "contradictions %",
)


def replies_of(trajectory: Trajectory, draws_pages: bool = False) -> Iterator[dict]:
    """One row per reply of the human.

    Args:
        trajectory: Trajectory with the replies.
        draws_pages: Whether a reply leaks by markup, as in Frontend Design, or by code of the reference solution.

    Returns:
        {id, human, question, reply, characters, leak, unknown, settled, ends_help, claim}. `settled`: the domain's
        oracle says that the reference answers the question (None if it did not judge the turn). `claim`: the reference
        solution as it would be if the reply were true (None if it cannot be read: `claims.py`).
    """
    history = trajectory.dialogue_history
    for place in range(2, len(history)):
        before, message = history[place - 1], history[place]
        if (before["role"], message["role"]) != ("assistant", "user"):
            continue
        reply, shown = message["content"], "\n".join(one["content"] for one in history[:place])
        leak = holds_markup(reply) if draws_pages else gives_away(reply, trajectory.task.ground_truth, shown)
        word = before.get("oracle")
        yield {
            "id": f"{trajectory.id}.{place}",
            "human": trajectory.human_label,
            "question": before["content"],
            "reply": reply,
            "characters": len(reply),
            "leak": leak,
            "unknown": does_not_know(reply),
            "settled": None if word is None else word in ("useful", "repeated"),
            "ends_help": ends_help(reply),
            "claim": claimed_solution(trajectory.task, history[:place], reply),
        }


def check_claims(jobs: Sequence[tuple[Task, str]], grader: Grader) -> list[bool | None]:
    """For each (task, claimed solution): whether it contradicts the reference on the task's tests; None if the task
    cannot be graded or the machine failed."""
    grades = grader.grade_many(iter(jobs))
    return [None if grade.reward is None else grade.reward < 1.0 for grade in grades]


def quality(rows: Sequence[dict], trajectories: Sequence[Trajectory]) -> list[dict]:
    """The figures of each human.

    Args:
        rows: Rows of `replies_of`, with `contradicts` (True, False, or None: not checked).
        trajectories: Trajectories of these rows.
    """
    return [
        _figures(
            human,
            [row for row in rows if row["human"] == human],
            [trajectory for trajectory in trajectories if trajectory.human_label == human],
        )
        for human in dict.fromkeys(row["human"] for row in rows)
    ]


def quality_table(figures: Sequence[dict]) -> Table:
    """One line per human; shares in percent."""
    lines = [
        [
            one["human"],
            str(one["dialogues"]),
            str(one["replies"]),
            f"{one['characters']:.0f}",
            *(_percent(one[key]) for key in ("leaks", "rejected_drafts", "unknown", "unknown_settled", "ends_help")),
            str(one["checked"]),
            _percent(one["contradictions"]),
        ]
        for one in figures
    ]
    return Table([list(HEADING), *lines], len(HEADING) - 1)


def _figures(human: str, rows: Sequence[dict], trajectories: Sequence[Trajectory]) -> dict:
    checked = [row for row in rows if row["contradicts"] is not None]
    unknown = [row for row in rows if row["unknown"]]
    given = sum(row["leak"] for row in rows)
    rejected = max(0, sum(trajectory.leaks or 0 for trajectory in trajectories) - given)
    return {
        "human": human,
        "dialogues": len(trajectories),
        "replies": len(rows),
        "characters": sum(row["characters"] for row in rows) / len(rows),
        "leaks": given / len(rows),
        "rejected_drafts": rejected / (len(rows) + rejected),
        "unknown": len(unknown) / len(rows),
        "unknown_settled": _share([row["settled"] for row in unknown if row["settled"] is not None]),
        "ends_help": sum(row["ends_help"] for row in rows) / len(rows),
        "checked": len(checked),
        "contradictions": _share([row["contradicts"] for row in checked]),
    }


def _share(values: Sequence[bool]) -> float | None:
    return sum(values) / len(values) if values else None


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"
