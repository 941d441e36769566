"""Step 2, the same for every domain: grade trajectories, summarise them, write what trainings need of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from sweet_rl.dialogues.domain import Domain, Grader
from sweet_rl.evaluation.compare import compare
from sweet_rl.evaluation.graded_file import read_graded
from sweet_rl.evaluation.statistics import check_k
from sweet_rl.evaluation.summary import summarise_rewards, summary_text
from sweet_rl.method.trajectory_pairs import check_texts, write_pairs
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.texts.released_texts import TextMarkup
from sweet_rl.runs.cli import to_settings
from sweet_rl.runs.errors import NothingMade, UserError
from sweet_rl.runs.hub import local_path
from sweet_rl.runs.manifest import manifest_of
from sweet_rl.runs.paths import check_paths
from sweet_rl.runs.progress import progress_bar
from sweet_rl.runs.records import RELEASED, Task, Trajectory, read_records
from sweet_rl.runs.run import check_output, open_run
from sweet_rl.runs.step import StepSettings

OWN, BASELINE = "this run", "the baseline"


@dataclass(frozen=True)
class GradedDialogues:
    """Which dialogues are graded, and where they are written with their grades.

    Attributes:
        input_path: Trajectories of simulate_interactions.py, or a released file.
        output_path: Graded trajectories, one per line: `reward`, and the evidence for it in `grade`. By default
            INPUT.graded.jsonl.
        num_tasks: Number of tasks that are graded, from the start of the file; all by default.
        grade_references: Grade the reference solutions of a tasks file as answers.
        in_place: Replace the input by the graded dialogues, once all of them are graded.
        retry_failed: Grade those answers again that failed by the machine (see `Grade.machine`).
    """

    input_path: str
    output_path: str | None = None
    num_tasks: int | None = None
    grade_references: bool = False
    in_place: bool = False
    retry_failed: bool = False

    def __post_init__(self) -> None:
        for flag in ("output_path", "num_tasks", "grade_references", "retry_failed"):
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
        return f"{os.path.realpath(self.input_path)}.grading" if self.in_place else self.result


@dataclass(frozen=True)
class SummarySettings:
    """What the summary shows.

    Attributes:
        k: Number of dialogues per task of which the best is also reported; it must divide their number in every task.
        baseline: Graded file of another run on the same tasks, against which the win rate is printed.
        mix_humans: Print the win rate also if the baseline was played with another simulated human.
        seed: Random seed of the bootstrap.
    """

    k: int = 1
    baseline: str | None = None
    mix_humans: bool = False
    seed: int = 0


@dataclass(frozen=True)
class TrainingData:
    """What is written for trainings.

    Attributes:
        preference_path: Output for trajectory pairs without the reference solution (multi-turn DPO).
        ground_truth_preference_path: Output for them with the reference solution after the BOS (the critic).
        best_path: Output for the best dialogue of each task (rejection fine-tuning with --min_reward 0).
        min_gap: Smallest difference of rewards between the two dialogues of a pair (the paper: 0.1 for frontend). The
            domain's by default: for code only a reward of 1 is preferred, to any lower one.
    """

    preference_path: str | None = None
    ground_truth_preference_path: str | None = None
    best_path: str | None = None
    min_gap: float | None = None

    def __post_init__(self) -> None:
        if self.min_gap is not None and self.min_gap <= 0:
            raise UserError(f"--min_gap is {self.min_gap}; it must be above 0.")

    @property
    def pair_paths(self) -> dict[str, bool]:
        """For each output of pairs whether they have the reference solution."""
        paths = {self.preference_path: False, self.ground_truth_preference_path: True}
        return {path: hint for path, hint in paths.items() if path is not None}


@dataclass(frozen=True)
class DialogueTexts:
    """How the texts of the pairs are made for trajectories that carry no parts.

    Attributes:
        tokenizer: Agent's model or tokenizer.
        response_template: Text before each turn of the agent in released texts.
    """

    tokenizer: str | None = None
    response_template: str | None = None

    def load(self) -> TextMarkup:
        """The same with the chat format loaded."""
        chat = None if self.tokenizer is None else ChatFormat.from_pretrained(self.tokenizer)
        return TextMarkup(chat, self.response_template)


def evaluate(
    domain: Domain,
    dialogues: GradedDialogues,
    wanted: SummarySettings,
    data: TrainingData,
    texts: DialogueTexts,
    grading: Any,
    step: StepSettings,
) -> None:
    """Grade the trajectories of a domain, print the summary, write pairs and best dialogues.

    A stopped run continues where it stopped.

    Raises:
        UserError: Unreadable input, tasks of another domain, or outputs that belong to a run with other settings.
    """
    outputs = [dialogues.target, *data.pair_paths, *([data.best_path] if data.best_path else [])]
    check_paths(outputs, [dialogues.input_path, wanted.baseline, domain.source])
    for path in outputs:
        check_output(path, step.overwrite)
    if dialogues.grade_references:
        read = reference_answers(read_records(dialogues.input_path, Task))
    else:
        read = read_records(dialogues.input_path, Trajectory)
    trajectories = first_tasks(read, dialogues.num_tasks)
    domain.check([trajectory.task for trajectory in trajectories], dialogues.input_path)
    check_k(Counter(trajectory.task.id for trajectory in trajectories), wanted.k)
    markup = texts.load()
    if data.pair_paths:
        check_texts(trajectories, markup)
    baseline = None if wanted.baseline is None else read_graded(wanted.baseline)

    with domain.make_grader(grading) as grader:
        print(grader.describe())
        settings = to_settings(grading, num_tasks=dialogues.num_tasks, grade_references=dialogues.grade_references)
        settings |= getattr(grader, "to_settings", dict)()
        if domain.source is not None:
            settings["task_type"] = domain.name
        inputs = [dialogues.input_path, domain.source]
        drop = _machine_failed if dialogues.retry_failed else None
        with open_run(dialogues.target, settings, inputs, step.overwrite, drop) as run:
            if run.finished:
                print(f"{run.path}: already complete")
            else:
                missing = (trajectory for trajectory in trajectories if trajectory.id not in run.done)
                with progress_bar(total=len(trajectories), initial=len(run.done), unit="answer") as bar:
                    for graded in grade_trajectories(missing, grader):
                        run.write(graded.to_dict())
                        bar.update()
            rewarded = [Trajectory.from_dict(row, str(run.path)) for row in run.records()]
            summary = summarise_rewards(rewarded, wanted.k, wanted.seed)  # for the present k
            if not run.finished:
                run.finish(summary, show=None)
    if dialogues.in_place:
        os.replace(dialogues.target, os.path.realpath(dialogues.result))
        manifest_of(Path(dialogues.target)).unlink()

    if baseline is not None and summary["graded"]:
        runs = {OWN: [read_graded(dialogues.result)], BASELINE: [baseline]}
        own_run, _ = compare(runs, [BASELINE], seed=wanted.seed, mix_humans=wanted.mix_humans)["runs"]
        summary["win_rate"] = own_run["wins_against"][BASELINE] | {"baseline": wanted.baseline}
    print(summary_text(summary))
    print(f"{dialogues.result}: {len(rewarded)} graded dialogues")
    if not summary["graded"]:
        raise NothingMade(
            f"{dialogues.result}: none of the {len(rewarded)} dialogues has a reward, for the reasons above. "
            "Dialogues that failed are played again with --retry_failed of simulate_interactions.py."
        )

    min_gap = domain.min_gap if data.min_gap is None else data.min_gap
    for path, hint in data.pair_paths.items():
        write_pairs(path, dialogues.result, rewarded, hint, markup, min_gap, step.overwrite)
    if data.best_path is not None:
        _write_best(data.best_path, dialogues.result, rewarded, step.overwrite)


def _machine_failed(row: dict) -> bool:
    return bool((row.get("grade") or {}).get("machine"))


def _write_best(path: str, graded_path: str, trajectories: Sequence[Trajectory], overwrite: bool) -> None:
    """Write the best dialogue of each task of a graded file."""
    with open_run(path, to_settings(best_of="task"), [graded_path], overwrite) as run:
        if not run.finished:
            run.write_missing(trajectory.to_dict() for trajectory in best_of_tasks(trajectories))
            run.finish({"trajectories": len(run.done)}, show=None, may_be_empty=True)
        print(f"{path}: the best dialogues of {run.summary['trajectories']} tasks")


def best_of_tasks(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """The graded dialogue with the highest reward per task, the first of equal ones; only if its reward is above 0."""
    best: dict[str, tuple[float, Trajectory]] = {}
    for trajectory in trajectories:
        highest = best[trajectory.task.id][0] if trajectory.task.id in best else 0.0
        if trajectory.reward is not None and trajectory.is_graded and trajectory.reward > highest:
            best[trajectory.task.id] = trajectory.reward, trajectory
    return [trajectory for _, trajectory in best.values()]


def grade_trajectories(trajectories: Iterable[Trajectory], grader: Grader) -> Iterator[Trajectory]:
    """Grade trajectories; they come back in the same order, with `reward` and `grade` (`Grade.as_dict`) set anew.

    A dialogue that failed is not graded: its reward is None. A dialogue that reached the turn limit has no answer,
    whatever its last message contains, unless it was played under the released protocol.
    """
    waiting: list[Trajectory] = []

    def jobs() -> Iterator[tuple[Task, str | None]]:
        for trajectory in trajectories:
            waiting.append(trajectory)
            if trajectory.ending != "failed":
                unanswered = trajectory.ending == "turn_limit" and trajectory.protocol != RELEASED
                yield trajectory.task, None if unanswered else trajectory.answer

    def not_graded() -> Iterator[Trajectory]:
        while waiting and waiting[0].ending == "failed":
            yield replace(waiting.pop(0), reward=None, grade=None)

    for grade in grader.grade_many(jobs()):
        yield from not_graded()
        yield replace(waiting.pop(0), reward=grade.reward, grade=grade.as_dict())
    yield from not_graded()


def reference_answers(tasks: Sequence[Task]) -> list[Trajectory]:
    """The reference solution of each task as the answer of an empty dialogue: the answers of a perfect agent."""
    return [Trajectory(task, [], answer=task.ground_truth, id=task.id, ending="answered") for task in tasks]


def first_tasks(trajectories: Sequence[Trajectory], num_tasks: int | None) -> list[Trajectory]:
    """All trajectories of the first `num_tasks` tasks, in the same order. Raises UserError if it is below 1."""
    if num_tasks is None:
        return list(trajectories)
    if num_tasks < 1:
        raise UserError(f"--num_tasks is {num_tasks}; it must be at least 1.")
    tasks = set(islice(dict.fromkeys(trajectory.task.id for trajectory in trajectories), num_tasks))
    return [trajectory for trajectory in trajectories if trajectory.task.id in tasks]
