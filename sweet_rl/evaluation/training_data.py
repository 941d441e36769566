"""What graded dialogues are turned into for trainings: trajectory pairs, and the best dialogue of each task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from sweet_rl.dialogues.sibling_pairs import best_of_tasks
from sweet_rl.method.trajectory_pairs import write_pairs
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.texts.parts import TextMarkup
from sweet_rl.runs.cli import alias, to_settings
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import TrajectoryFile
from sweet_rl.runs.run import Run, open_run
from sweet_rl.runs.step import run_step


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

    @property
    def paths(self) -> list[str]:
        """All outputs."""
        return [path for path in (*self.pair_paths, self.best_path) if path is not None]


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


def write_training_data(
    data: TrainingData,
    graded_path: str,
    file: TrajectoryFile,
    texts: TextMarkup,
    min_gap: float | None,
    overwrite: bool,
) -> None:
    """Write the outputs that are asked for. A killed run continues with the same call.

    Args:
        data: The outputs.
        graded_path: The graded file.
        file: The same file, after its scan.
        texts: Markup of the pairs' texts.
        min_gap: Smallest difference of rewards in the domain, if `data` has none.
        overwrite: Whether older outputs are replaced.
    """
    min_gap = min_gap if data.min_gap is None else data.min_gap
    for path, hint in data.pair_paths.items():
        write_pairs(path, graded_path, file, hint, texts, min_gap, overwrite)
    if data.best_path is not None:
        _write_best(data.best_path, graded_path, file, overwrite)


def _write_best(path: str, graded_path: str, file: TrajectoryFile, overwrite: bool) -> None:
    def write(run: Run) -> dict:
        run.write_missing(file.whole(trajectory).to_dict() for trajectory in best_of_tasks(file.light))
        return {"trajectories": len(run.done)}

    def show(summary: dict) -> None:
        print(f"{path}: the best dialogues of {summary['trajectories']} tasks")

    run_step(open_run(path, to_settings(best_of="task"), [graded_path], overwrite), write, show, may_be_empty=True)
