"""Figures of a graded frontend run: cosine similarity, best of k, and what failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from sweet_rl.analysis.statistics import best_of_k, bootstrap_interval, percent_text
from sweet_rl.records import Trajectory


def summarise_pages(trajectories: Sequence[Trajectory], k: int = 1, seed: int = 0) -> dict:
    """The figures of one graded run: cosine similarity (failures count 0), best of k, and what failed.

    Best of k leaves out tasks of which failed dialogues leave fewer than k graded ones; their number is given.
    """
    graded = [trajectory for trajectory in trajectories if trajectory.is_graded]
    rewards: dict[str, list[float]] = {}
    for trajectory in graded:
        rewards.setdefault(trajectory.task.id, []).append(trajectory.reward)
    grades = [(t.grade or {}, t) for t in trajectories if t.ending != "failed"]
    failed = Counter((t.failure or {}).get("kind", "unknown") for t in trajectories if t.ending == "failed")
    summary: dict = {
        "dialogues": len(trajectories),
        "graded": len(graded),
        "tasks": len({trajectory.task.id for trajectory in trajectories}),
        "encoder": next((grade.get("encoder") for grade, _ in grades), None),
        "failed_dialogues": dict(failed.most_common()),
        "answers_failed_by": dict(Counter(g["failure"] for g, _ in grades if g.get("failure")).most_common()),
        "references_not_drawn": {t.task.id: g["ungradable"] for g, t in grades if g.get("ungradable")},
        "machine_failures": sum(1 for grade, _ in grades if grade.get("machine")),
    }
    if graded:
        summary["cosine_similarity"] = bootstrap_interval(rewards, seed=seed).to_dict()
        summary["turns"] = float(np.mean([trajectory.turns for trajectory in graded]))
    if graded and k > 1:
        enough = {task: values for task, values in rewards.items() if len(values) >= k}
        summary["best_of_k"] = {"k": k, "tasks_with_too_few": len(rewards) - len(enough)}
        if enough:
            best = {task: best_of_k(values, k) for task, values in enough.items()}
            summary["best_of_k"]["cosine_similarity"] = bootstrap_interval(best, seed=seed).to_dict()
    return summary


def page_summary_text(summary: dict) -> str:
    """`summarise_pages`'s figures as lines for people; `win_rate` is shown where it was put into the summary."""
    lines = [
        f"dialogues         {summary['dialogues']} of {summary['tasks']} tasks, {summary['graded']} graded",
        f"image encoder     {summary['encoder']}",
    ]
    if "cosine_similarity" in summary:
        lines.append(f"cosine similarity {percent_text(summary['cosine_similarity'])}")
    best = summary.get("best_of_k", {})
    if "cosine_similarity" in best:
        lines.append(f"best of {best['k']}         {percent_text(best['cosine_similarity'])}")
    if best.get("tasks_with_too_few"):
        lines.append(f"best of {best['k']} leaves out {best['tasks_with_too_few']} tasks with too few graded dialogues")
    if "win_rate" in summary:
        lines.append(f"win rate          {percent_text(summary['win_rate'])} against {summary['win_rate']['baseline']}")
    if "turns" in summary:
        lines.append(f"turns             {summary['turns']:.2f}")
    for name, key in (
        ("answers without a picture, reward 0", "answers_failed_by"),
        ("dialogues that failed, not graded", "failed_dialogues"),
    ):
        if summary[key]:
            lines.append(f"{name}: " + ", ".join(f"{kind} {count}" for kind, count in summary[key].items()))
    if summary["machine_failures"]:
        lines.append(f"answers that the machine failed to draw, not counted: {summary['machine_failures']}")
    if summary["references_not_drawn"]:
        lines.append(f"reference pages without a picture, not counted: {len(summary['references_not_drawn'])}")
        lines += [f"  {task}: {kind}" for task, kind in summary["references_not_drawn"].items()]
    return "\n".join(lines)
