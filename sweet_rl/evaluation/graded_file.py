"""A file of graded trajectories and how they were graded: only runs on the same tasks, graded alike, are comparable."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import check_finished, read_manifest
from sweet_rl.runs.records import Trajectory, read_records

NOT_OF_THE_GRADER = {"num_tasks", "sandbox", "workers", "browser", "baseline", "seed", "k", "grade_references", "limit"}
NAMED_IN_ROWS = ("grader", "encoder")
# A missing value counts as a difference for these; for others it is ignored, because a manifest can be lost.
STRICT = {"kind", *NAMED_IN_ROWS}
MAIN_MEASURE = {"page": "similarity", "function": "reward"}
"""The main measure by kind of grading; success for any other kind."""


@dataclass(frozen=True)
class GradedFile:
    """The graded trajectories of one seed of a run.

    Attributes:
        path: Path of the file.
        trajectories: Trajectories of the file.
        grader: Facts of the grading by name: `kind` (code, page, or function), what the rows name (grader, encoder),
            and the settings in the manifest of the evaluation.
    """

    path: str
    trajectories: Sequence[Trajectory]
    grader: Mapping[str, Any] = field(default_factory=dict)


def read_graded(path: str) -> GradedFile:
    """Read a file of evaluate_code.py or evaluate_html.py.

    Raises:
        UserError: its rows were graded in different ways, it is unfinished, or its manifest is damaged.
    """
    check_finished(path)
    manifest, trajectories = read_manifest(path), read_records(path, Trajectory)
    return GradedFile(path, trajectories, grader_of(path, trajectories, manifest["settings"] if manifest else {}))


def grader_of(
    path: str, trajectories: Iterable[Trajectory], settings: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """How the trajectories were graded, by their own fields and by the settings of their evaluation."""
    grader = {name: value for name, value in (settings or {}).items() if name not in NOT_OF_THE_GRADER}
    for trajectory in trajectories:
        grade, kind = trajectory.grade or {}, graded_as(trajectory)
        facts = {name: grade.get(name, trajectory.extra.get(name)) for name in NAMED_IN_ROWS} | {"kind": kind}
        if grade and kind != "function":  # a manifest can be lost, or be that of the dialogues (--in_place)
            facts["paper_grader"] = grade.get("rules") == "paper"
        for name, value in facts.items():
            if value is not None and grader.setdefault(name, value) != value:
                raise UserError(
                    f"{path}: rows with different {name}s, {grader[name]!r} and {value!r} ({trajectory.id}). "
                    "Evaluate all of the file in one way."
                )
    return grader


def graded_as(trajectory: Trajectory) -> str | None:
    """How a dialogue was graded: page, function or code; None if that is not known, or it is not graded.

    Without a grade, as in an imported file, the reward of a task without tests is that of a function.
    """
    grade = trajectory.grade or {}
    if "grader" in grade or (not grade and trajectory.reward is not None and not trajectory.task.test_cases):
        return "function"
    if "similarity" in grade:
        return "page"
    return "code" if grade else None


def check_comparable(runs: Mapping[str, Sequence[GradedFile]], mix_humans: bool = False) -> dict:
    """How all of the runs were graded.

    Args:
        runs: The files of each run by its name, one per seed.
        mix_humans: Whether the simulated humans and the protocols may differ.

    Raises:
        UserError: two files have different tasks, were graded differently, or had different humans or protocols; the
            message names the difference.
    """
    if not mix_humans:
        _check_same(runs, lambda dialogue: dialogue.protocol, "under different protocols", "under one protocol")
        _check_same(runs, lambda dialogue: dialogue.human_label, "with different simulated humans", "with one human")
    (first_name, first), *others = [(name, file) for name, files in runs.items() for file in files]
    tasks = {t.task.id: t.task.content for t in first.trajectories}
    for name, file in others:
        what = f"The runs {first_name!r} ({first.path}) and {name!r} ({file.path})"
        other = {t.task.id: t.task.content for t in file.trajectories}
        if odd := sorted(key for key in tasks.keys() | other.keys() if tasks.get(key) != other.get(key)):
            raise UserError(
                f"{what} are on different tasks: {len(odd)} are in only one of them or have another solution or other "
                f"tests, the first is {odd[0]}. Evaluate all on the same tasks file and --num_tasks."
            )
        differing = [
            f"{key}: {first.grader.get(key, '(not given)')} and {file.grader.get(key, '(not given)')}"
            for key in sorted(first.grader.keys() | file.grader.keys())
            if first.grader.get(key) != file.grader.get(key)
            and (key in STRICT or key in first.grader.keys() & file.grader.keys())
        ]
        if differing:
            raise UserError(f"{what} were graded differently ({'; '.join(differing)}). Evaluate all in the same way.")
    return dict(first.grader)


def _check_same(
    runs: Mapping[str, Sequence[GradedFile]], label: Callable[[Trajectory], str | None], found: str, remedy: str
) -> None:
    """Refuse dialogues with different labels. Dialogues in which the human said nothing are not compared."""
    labels: dict[str, str] = {}
    for name, files in runs.items():
        for file in files:
            values = {label(one) for one in file.trajectories if one.human_label is not None} - {None}
            for value in sorted(map(str, values)):
                labels.setdefault(value, f"{value} in {name!r} ({file.path})")
    if len(labels) > 1:
        raise UserError(
            f"The dialogues were played {found}: {'; '.join(labels.values())}. Their figures cannot be compared: play "
            f"all runs {remedy}, or give --mix_humans."
        )
