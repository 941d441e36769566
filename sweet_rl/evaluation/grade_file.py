"""Grade the dialogues of a file with the grader of their domain."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from sweet_rl.dialogues.domain import Domain
from sweet_rl.dialogues.grading import first_tasks, grade_trajectories, reference_answers
from sweet_rl.dialogues.protocols import Grader
from sweet_rl.runs.cli import alias, to_settings
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import read_manifest, replace_source
from sweet_rl.runs.names import local_path
from sweet_rl.runs.progress import progress_bar
from sweet_rl.runs.records import Task, Trajectory, TrajectoryFile, read_records, without_excluded
from sweet_rl.runs.run import Run, open_run
from sweet_rl.runs.step import run_step

PACKAGED = ("code", "html", "mini")


@dataclass(frozen=True)
class GradedDialogues:
    """Which dialogues are graded, and where they are written with their grades.

    Attributes:
        input_path: Trajectories of simulate_interactions.py, or a released file.
        output_path: Graded trajectories, one per line: `reward`, and the evidence for it in `grade`. By default
            INPUT.graded.jsonl.
        num_tasks: Number of tasks that are graded, from the start of the file; all by default.
        exclude: List of tasks to leave out, JSONL with a field `id` per row.
        grade_references: Grade the reference solutions of a tasks file as answers.
        in_place: Replace the input by the graded dialogues, once all of them are graded.
        retry_failed: Grade those answers again that failed by the machine (see `Grade.machine`).
    """

    input_path: Annotated[str, alias("data_path")]
    output_path: str | None = None
    num_tasks: int | None = None
    exclude: str | None = None
    grade_references: bool = False
    in_place: bool = False
    retry_failed: bool = False

    def __post_init__(self) -> None:
        for flag in ("output_path", "num_tasks", "exclude", "grade_references", "retry_failed"):
            if self.in_place and getattr(self, flag):
                raise UserError(
                    f"--in_place replaces the input by the same dialogues, graded anew: leave out --{flag}."
                )
        if self.output_path is None and local_path(self.input_path) != Path(self.input_path):
            raise UserError(f"{self.input_path} is on the hub, where no result can be written: give --output_path.")

    @property
    def result(self) -> str:
        """The file that holds the graded trajectories in the end."""
        if self.in_place:
            return self.input_path
        return self.output_path or f"{self.input_path.removesuffix('.jsonl')}.graded.jsonl"

    @property
    def target(self) -> str:
        """The file that is written while grading goes on."""
        if not self.in_place:
            return self.result
        source = os.path.realpath(self.input_path) if os.path.islink(self.input_path) else self.input_path
        return f"{source}.grading"


@dataclass(frozen=True)
class Answers:
    """The trajectories that are graded.

    Attributes:
        light: All of them, with what is compared and counted (`Trajectory.light`).
        whole: Function that returns one of them with its texts.
    """

    light: Sequence[Trajectory]
    whole: Callable[[Trajectory], Trajectory]


def read_answers(domain: Domain, dialogues: GradedDialogues) -> Answers:
    """The trajectories to grade. Raises UserError if the file cannot be read or its tasks are of another domain."""
    path = dialogues.input_path
    _check_played(domain, path)
    if dialogues.grade_references:
        trajectories = reference_answers(read_records(path, Task))
        answers = Answers(trajectories, lambda answer: answer)
    else:
        file = TrajectoryFile(path)
        for _ in file.scan():
            pass
        answers = Answers(file.light, file.whole)
    light = without_excluded(first_tasks(answers.light, dialogues.num_tasks), dialogues.exclude)
    domain.check([trajectory.task for trajectory in light], path)
    return Answers(light, answers.whole)


def _check_played(domain: Domain, path: str) -> None:
    """Refuse dialogues of a user's domain for one of the package, whose grader knows nothing of their rewards."""
    manifest = read_manifest(local_path(path)) or {"settings": {}, "inputs": {}}
    played = manifest["settings"].get("gathered", manifest["settings"]).get("task_type")
    file = next((name for name in manifest["inputs"] if name.endswith(".py")), None)
    if file and domain.source is None and isinstance(played, str) and played not in {*PACKAGED, domain.name}:
        raise UserError(
            f"{path}: the dialogues are of the domain {played!r}, not of {domain.name!r}: give --task_type {file}, the "
            "file of their domain."
        )


def grading_settings(domain: Domain, dialogues: GradedDialogues, grading: Any, grader: Grader) -> dict[str, Any]:
    """What the grades depend on, for the manifest: settings, and what the grader has found, such as its encoder."""
    settings = to_settings(grading, num_tasks=dialogues.num_tasks, grade_references=dialogues.grade_references)
    found: dict[str, Any] = getattr(grader, "to_settings", dict)()
    named = {} if domain.source is None else {"task_type": domain.name}
    return settings | found | named


def grade_file(
    domain: Domain,
    dialogues: GradedDialogues,
    answers: Answers,
    grader: Grader,
    settings: dict[str, Any],
    summarise: Callable[..., dict],
    overwrite: bool,
) -> None:
    """Grade what the output lacks. A killed run continues with the same call.

    Args:
        domain: The domain; a change of its file is a change of the settings.
        dialogues: Input and output.
        answers: The trajectories of the input.
        grader: The open grader of the domain.
        settings: What the grades depend on.
        summarise: Function that returns the summary of all graded trajectories, for the manifest.
        overwrite: Whether an output of other settings is replaced.

    Raises:
        UserError: The output belongs to a run with other settings.
    """

    def grade(run: Run) -> dict[str, Any]:
        write_grades(answers, grader, run)
        return summarise(Trajectory.from_dict(row, str(run.path)) for row in run.records())

    drop = _machine_failed if dialogues.retry_failed else None
    inputs = [dialogues.input_path, dialogues.exclude, domain.source]
    run_step(
        open_run(dialogues.target, settings, inputs, overwrite, drop),
        grade,
        show=lambda _: None,  # shown by the caller, for the present k and baseline
    )
    if dialogues.in_place:
        replace_source(Path(dialogues.target), Path(dialogues.result))


def write_grades(answers: Answers, grader: Grader, run: Run) -> None:
    """Grade the trajectories that the run lacks; only a few of them are in memory with their texts."""
    missing = map(answers.whole, [trajectory for trajectory in answers.light if trajectory.id not in run.done])
    with progress_bar(total=len(answers.light), initial=len(run.done), unit="answer") as bar:
        for graded in grade_trajectories(missing, grader):
            run.write(graded.to_dict())
            bar.update()


def _machine_failed(row: dict) -> bool:
    return bool((row.get("grade") or {}).get("machine"))
