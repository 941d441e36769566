"""Step 2, the same for every domain: grade trajectories, summarise them, write trajectory pairs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from sweet_rl.chat import ChatFormat
from sweet_rl.cli import alias, to_settings
from sweet_rl.credit.trajectory_pairs import check_texts, write_pairs
from sweet_rl.domains import Domain, Grader
from sweet_rl.domains.grading import best_of_tasks, first_tasks, grade_trajectories, reference_answers
from sweet_rl.errors import NothingMade, UserError
from sweet_rl.evaluation.comparison import compare
from sweet_rl.evaluation.graded_file import GradedFile, check_comparable, grader_of, read_graded
from sweet_rl.evaluation.report import summarise_rewards, summary_text
from sweet_rl.evaluation.statistics import Estimate, check_k
from sweet_rl.log_probs.trajectory_parts import TextMarkup
from sweet_rl.names import local_path
from sweet_rl.progress import progress_bar
from sweet_rl.records import Task, Trajectory, TrajectoryFile, read_records, without_excluded
from sweet_rl.runs.manifest import replace_source
from sweet_rl.runs.paths import check_paths
from sweet_rl.runs.run import Run, check_output, open_run
from sweet_rl.runs.step import StepSettings, run_step


@dataclass(frozen=True)
class Evaluation:
    """What is graded, and what is written.

    Attributes:
        output_path: Graded trajectories, one per line: `reward`, and the evidence for it in `grade`. By default
            INPUT.graded.jsonl.
        input_path: Trajectories of simulate_interactions.py, or a released file.
        k: Number of dialogues per task of which the best is also reported; it must divide their number in every task.
        preference_path: Output for trajectory pairs without the reference solution (multi-turn DPO).
        ground_truth_preference_path: Output for them with the reference solution after the BOS (the critic).
        best_path: Output for the best dialogue of each task (rejection fine-tuning with --min_reward 0).
        min_gap: Smallest difference of rewards between the two dialogues of a pair (the paper: 0.1 for frontend). The
            domain's by default: for code only a reward of 1 is preferred, to any lower one.
        baseline: Graded file of another run on the same tasks, against which the win rate is printed.
        mix_humans: Print the win rate also if the baseline was played with another simulated human.
        num_tasks: Number of tasks that are graded, from the start of the file; all by default.
        exclude: List of tasks to leave out, JSONL with a field `id` per row.
        grade_references: Grade the reference solutions of a tasks file as answers.
        in_place: Replace the input by the graded dialogues, once all of them are graded.
        retry_failed: Grade those answers again that failed by the machine (see `Grade.machine`).
        seed: Random seed of the bootstrap.
    """

    output_path: str | None = None
    input_path: Annotated[str | None, alias("data_path")] = None
    k: int = 1
    preference_path: str | None = None
    ground_truth_preference_path: str | None = None
    best_path: str | None = None
    min_gap: float | None = None
    baseline: str | None = None
    mix_humans: bool = False
    num_tasks: int | None = None
    exclude: str | None = None
    grade_references: bool = False
    in_place: bool = False
    retry_failed: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        _ = self.source  # so that a missing one is refused first
        if self.min_gap is not None and self.min_gap <= 0:
            raise UserError(f"--min_gap is {self.min_gap}; it must be above 0.")
        for flag in ("output_path", "num_tasks", "exclude", "grade_references", "retry_failed"):
            if self.in_place and getattr(self, flag):
                raise UserError(
                    f"--in_place replaces the input by the same dialogues, graded anew: leave out --{flag}."
                )

    @property
    def source(self) -> str:
        """The file of the trajectories that are graded. Raises UserError if it is not given."""
        if self.input_path is None:
            raise UserError("missing: --input_path (the trajectories to grade). See --help.")
        return self.input_path

    @property
    def target(self) -> str:
        """The file that is written while grading goes on."""
        beside = os.path.realpath(self.source) if os.path.islink(self.source) else self.source
        return f"{beside}.grading" if self.in_place else self.result

    @property
    def result(self) -> str:
        """The file that holds the graded trajectories in the end."""
        if self.in_place:
            return self.source
        return self.output_path or f"{self.source.removesuffix('.jsonl')}.graded.jsonl"


@dataclass(frozen=True)
class DialogueTexts:
    """How the texts of the pairs are made for trajectories that carry no parts.

    Attributes:
        tokenizer: Agent's model or tokenizer.
        response_template: Text before each turn of the agent in released texts.
        eos_text: Text that ends a turn in released texts; the tokenizer's by default.
        bos_text: Text that begins a dialogue in released texts; the tokenizer's by default.
    """

    tokenizer: Annotated[str | None, alias("agent_model")] = None
    response_template: str | None = None
    eos_text: str | None = None
    bos_text: str | None = None

    def load(self) -> TextMarkup:
        """The same with the chat format loaded."""
        chat = None if self.tokenizer is None else ChatFormat.from_pretrained(self.tokenizer)
        return TextMarkup(chat, self.response_template, self.eos_text, self.bos_text)


def evaluate(domain: Domain, evaluation: Evaluation, texts: DialogueTexts, grading: Any, step: StepSettings) -> None:
    """Grade the trajectories of a domain, print the summary, write the pairs.

    A stopped run continues where it stopped.

    Args:
        domain: The domain, whose grader is used.
        evaluation: Input and outputs.
        texts: Markup of the pairs.
        grading: The settings that `domain.grader` takes.
        step: Whether older outputs are replaced.

    Raises:
        UserError: Unreadable input, tasks of another domain, or outputs that belong to a run with other settings.
    """
    source, pair_paths = evaluation.source, (evaluation.preference_path, evaluation.ground_truth_preference_path)
    min_gap = domain.min_gap if evaluation.min_gap is None else evaluation.min_gap
    if evaluation.output_path is None and local_path(source) != Path(source):
        raise UserError(f"{source} is on the hub, where the result cannot be written beside it: give --output_path.")
    outputs = [evaluation.target, *filter(None, (*pair_paths, evaluation.best_path))]
    check_paths(outputs, [source, evaluation.baseline, evaluation.exclude, domain.source])
    for path in outputs:
        check_output(path, step.overwrite)
    trajectories, whole = _read(domain, evaluation)
    check_k(Counter(trajectory.task.id for trajectory in trajectories), evaluation.k)
    loaded_texts = texts.load()
    if any(pair_paths):
        check_texts(map(whole, trajectories), loaded_texts)
    baseline = None if evaluation.baseline is None else read_graded(evaluation.baseline)
    with domain.grader(grading) as grader:
        print(grader.describe())
        # What the grader has found by itself, such as the encoder.
        found: dict[str, Any] = getattr(grader, "to_settings", dict)()
        settings = to_settings(grading, num_tasks=evaluation.num_tasks, grade_references=evaluation.grade_references)
        settings |= found
        if domain.source is not None:
            settings["task_type"] = domain.name
        if baseline is not None:
            _check_baseline(domain, evaluation, trajectories, settings, baseline)
        drop = _machine_failed if evaluation.retry_failed else None
        inputs = [source, evaluation.exclude, domain.source]
        run_step(
            open_run(evaluation.target, settings, inputs, step.overwrite, drop),
            partial(_grade, trajectories, whole, grader, evaluation),
            show=lambda _: None,  # shown below, for this k, with the win rate
        )
    if evaluation.in_place:
        replace_source(Path(evaluation.target), Path(evaluation.result))
    file = TrajectoryFile(evaluation.result)
    summary = summarise_rewards(file.scan(), evaluation.k, evaluation.seed)
    if baseline is not None:
        runs = {"this run": [read_graded(evaluation.result)], "the baseline": [baseline]}
        wins = _wins(runs, evaluation)
        summary["win_rate"] = wins.to_dict() | {"baseline": evaluation.baseline}
    print(summary_text(summary))
    print(f"{evaluation.result}: {len(file.light)} graded dialogues")
    if not summary["graded"]:
        raise NothingMade(
            f"{evaluation.result}: none of the {len(file.light)} dialogues has a reward, for the reasons above. "
            "Dialogues that failed are played again with --retry_failed of simulate_interactions.py."
        )
    for pair_path, hint in zip(pair_paths, (False, True), strict=True):
        if pair_path is not None:
            write_pairs(pair_path, evaluation.result, file, hint, loaded_texts, min_gap, step.overwrite)
    if evaluation.best_path is not None:
        _write_best(evaluation.best_path, evaluation.result, file, step.overwrite)


def _wins(runs: dict[str, list[GradedFile]], evaluation: Evaluation) -> Estimate:
    compared = compare(runs, ["the baseline"], seed=evaluation.seed, mix_humans=evaluation.mix_humans)
    return compared.against["this run", "the baseline"].wins


def _read(domain: Domain, evaluation: Evaluation) -> tuple[list[Trajectory], Callable[[Trajectory], Trajectory]]:
    """The trajectories that are graded (`Trajectory.light`), and the function that returns one of them whole."""
    if evaluation.grade_references:
        trajectories = reference_answers(read_records(evaluation.source, Task))
    else:
        file = TrajectoryFile(evaluation.source)
        for _ in file.scan():
            pass
        trajectories = file.light
    trajectories = without_excluded(first_tasks(trajectories, evaluation.num_tasks), evaluation.exclude)
    domain.check([trajectory.task for trajectory in trajectories], evaluation.source)
    return trajectories, (lambda answer: answer) if evaluation.grade_references else file.whole


def _check_baseline(
    domain: Domain, evaluation: Evaluation, trajectories: Sequence[Trajectory], settings: dict, baseline: GradedFile
) -> None:
    """Raises UserError, before anything is graded, if the baseline has other tasks or another grader."""
    grader = grader_of(evaluation.result, [], settings) | {"kind": "page" if domain.draws_pages else "code"}
    if grader["kind"] == "code" and baseline.grader.get("kind") == "function":  # compared once the answers are graded
        grader |= {name: baseline.grader[name] for name in ("kind", "grader")}
    if "image_encoder" in settings:
        grader["encoder"] = settings["image_encoder"]
    own = GradedFile(evaluation.result, trajectories, grader)
    check_comparable({"this run": [own], "the baseline": [baseline]}, evaluation.mix_humans)


def _grade(
    trajectories: Sequence[Trajectory],
    whole: Callable[[Trajectory], Trajectory],
    grader: Grader,
    evaluation: Evaluation,
    run: Run,
) -> dict[str, Any]:
    """Grade what the run lacks; the summary of all its trajectories."""
    missing = map(whole, [trajectory for trajectory in trajectories if trajectory.id not in run.done])
    with progress_bar(total=len(trajectories), initial=len(run.done), unit="answer") as bar:
        for graded in grade_trajectories(missing, grader):
            run.write(graded.to_dict())
            bar.update()
    rows = (Trajectory.from_dict(row, str(run.path)) for row in run.records())
    return summarise_rewards(rows, evaluation.k, evaluation.seed)


def _machine_failed(row: dict) -> bool:
    return bool((row.get("grade") or {}).get("machine"))


def _write_best(path: str, source: str, file: TrajectoryFile, overwrite: bool) -> None:
    def write(run: Run) -> dict:
        run.write_missing(file.whole(trajectory).to_dict() for trajectory in best_of_tasks(file.light))
        return {"trajectories": len(run.done)}

    def show(summary: dict) -> None:
        print(f"{path}: the best dialogues of {summary['trajectories']} tasks")

    run_step(open_run(path, to_settings(best_of="task"), [source], overwrite), write, show, may_be_empty=True)
