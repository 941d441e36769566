"""Figures of a graded frontend run: cosine similarity, best of k, win rate against another run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from sweet_rl.errors import UserError
from sweet_rl.grading.evaluate_pages import encoder_of
from sweet_rl.grading.report import is_graded, turns
from sweet_rl.grading.statistics import Estimate, best_of_k, bootstrap_interval
from sweet_rl.records import Trajectory


def summarise_pages(trajectories: Sequence[Trajectory], k: int = 1, seed: int = 0) -> dict:
    """The figures of one graded run: cosine similarity (failures count 0), best of k, and what failed.

    Best of k leaves out tasks of which failed dialogues leave fewer than k graded ones; their number is given.
    """
    graded = [trajectory for trajectory in trajectories if is_graded(trajectory)]
    rewards = rewards_by_task(graded)
    failures = [(t.extra.get("render_failure") or {}, t) for t in trajectories if t.ending != "failed"]
    failed = Counter((t.failure or {}).get("kind", "unknown") for t in trajectories if t.ending == "failed")
    summary: dict = {
        "dialogues": len(trajectories),
        "graded": len(graded),
        "tasks": len({trajectory.task.id for trajectory in trajectories}),
        "encoder": encoder_of(trajectories, "the graded file") if len(failures) else None,
        "failed_dialogues": dict(failed.most_common()),
        "answers_failed_by": dict(Counter(f["kind"] for f, _ in failures if f.get("side") == "answer").most_common()),
        "references_not_drawn": {t.task.id: f["kind"] for f, t in failures if f.get("side") == "reference"},
    }
    if graded:
        summary["cosine_similarity"] = bootstrap_interval(rewards, seed=seed).to_dict()
        summary["turns"] = float(np.mean([turns(trajectory) for trajectory in graded]))
    if graded and k > 1:
        enough = {task: values for task, values in rewards.items() if len(values) >= k}
        summary["best_of_k"] = {"k": k, "tasks_with_too_few": len(rewards) - len(enough)}
        if enough:
            best = {task: best_of_k(values, k) for task, values in enough.items()}
            summary["best_of_k"]["cosine_similarity"] = bootstrap_interval(best, seed=seed).to_dict()
    return summary


def win_rate(
    ours: Sequence[Trajectory], theirs: Sequence[Trajectory], names: tuple[str, str] = ("the run", "the baseline"),
    seed: int = 0,
) -> Estimate:
    """Share of tasks on which our pages are closer to the reference than theirs; a tie is half a win (PAPER, ColBench).

    With several dialogues of a task, its share is that of the pairs of one of ours and one of theirs. The interval
    resamples tasks. Tasks without a graded dialogue in one of the runs are left out.
    Raises UserError: other tasks, another image encoder, nothing in common.
    """  # fmt: skip
    encoders = [encoder_of(rows, name) for rows, name in zip((ours, theirs), names, strict=True)]
    if encoders[0] != encoders[1]:
        raise UserError(different_encoders(dict(zip(names, encoders, strict=True))))
    odd = sorted({t.task.id for t in ours} ^ {t.task.id for t in theirs})
    if odd:
        raise UserError(
            f"{names[0]} and {names[1]} are on different tasks: {len(odd)} are in only one of them, the first is "
            f"{odd[0]}. Evaluate both on the same tasks file and --num_tasks."
        )
    own, other = rewards_by_task(filter(is_graded, ours)), rewards_by_task(filter(is_graded, theirs))
    shares = {task: _share_won(own[task], other[task]) for task in own if task in other}
    if not shares:
        raise UserError(f"no task has a graded dialogue both in {names[0]} and in {names[1]}.")
    return bootstrap_interval(shares, seed=seed)


def _share_won(ours: Sequence[float], theirs: Sequence[float]) -> float:
    difference = np.subtract.outer(np.asarray(ours), np.asarray(theirs))
    return float(((difference > 0) + 0.5 * (difference == 0)).mean())


def rewards_by_task(trajectories) -> dict[str, list[float]]:
    """The rewards of each task's graded dialogues."""
    grouped: dict[str, list[float]] = {}
    for trajectory in trajectories:
        grouped.setdefault(trajectory.task.id, []).append(trajectory.reward)
    return grouped


def page_summary_text(summary: dict) -> str:
    """`summarise_pages`'s figures as lines for people; `win_rate` is shown where it was put into the summary."""
    lines = [
        f"dialogues         {summary['dialogues']} of {summary['tasks']} tasks, {summary['graded']} graded",
        f"image encoder     {summary['encoder']}",
    ]
    if "cosine_similarity" in summary:
        lines.append(f"cosine similarity {_percent(summary['cosine_similarity'])}")
    best = summary.get("best_of_k", {})
    if "cosine_similarity" in best:
        lines.append(f"best of {best['k']}         {_percent(best['cosine_similarity'])}")
    if best.get("tasks_with_too_few"):
        lines.append(f"best of {best['k']} leaves out {best['tasks_with_too_few']} tasks with too few graded dialogues")
    if "win_rate" in summary:
        lines.append(f"win rate          {_percent(summary['win_rate'])} against {summary['win_rate']['baseline']}")
    if "turns" in summary:
        lines.append(f"turns             {summary['turns']:.2f}")
    for name, key in (
        ("answers without a picture, reward 0", "answers_failed_by"),
        ("dialogues that failed, not graded", "failed_dialogues"),
    ):
        if summary[key]:
            lines.append(f"{name}: " + ", ".join(f"{kind} {count}" for kind, count in summary[key].items()))
    if summary["references_not_drawn"]:
        lines.append(f"reference pages without a picture, not counted: {len(summary['references_not_drawn'])}")
        lines += [f"  {task}: {kind}" for task, kind in summary["references_not_drawn"].items()]
    return "\n".join(lines)


def different_encoders(encoders: Mapping[str, str]) -> str:
    """The message that refuses to compare runs."""
    named = ", ".join(f"{name}: {encoder}" for name, encoder in encoders.items())
    return (
        f"similarities of different image encoders cannot be compared ({named}). "
        "Grade all with the same --image_encoder."
    )


def _percent(estimate: Mapping[str, float]) -> str:
    return f"{100 * estimate['mean']:.1f} %  (95 %: {100 * estimate['low']:.1f} to {100 * estimate['high']:.1f})"
