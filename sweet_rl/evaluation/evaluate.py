"""Step 2, the same for every domain: grade trajectories, summarise them, write what trainings need of them."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

from sweet_rl.dialogues.domain import Domain
from sweet_rl.evaluation.grade_file import GradedDialogues, grade_file, grading_settings, read_answers
from sweet_rl.evaluation.graded_file import read_graded
from sweet_rl.evaluation.report import summarise_rewards, summary_text
from sweet_rl.evaluation.statistics import check_k
from sweet_rl.evaluation.training_data import DialogueTexts, TrainingData, write_training_data
from sweet_rl.evaluation.win_rate import check_baseline, win_rate
from sweet_rl.method.trajectory_pairs import check_texts
from sweet_rl.runs.errors import NothingMade
from sweet_rl.runs.paths import check_paths
from sweet_rl.runs.records import TrajectoryFile
from sweet_rl.runs.run import check_output
from sweet_rl.runs.step import StepSettings

logger = logging.getLogger(__name__)


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
    outputs = [dialogues.target, *data.paths]
    check_paths(outputs, [dialogues.input_path, wanted.baseline, dialogues.exclude, domain.source])
    for path in outputs:
        check_output(path, step.overwrite)
    answers = read_answers(domain, dialogues)
    check_k(Counter(trajectory.task.id for trajectory in answers.light), wanted.k)
    if len(protocols := {one.protocol for one in answers.light if one.protocol}) > 1:
        logger.warning(
            "%s: dialogues of the protocols %s, whose rewards cannot be compared",
            dialogues.input_path,
            " and ".join(sorted(protocols)),
        )
    markup = texts.load()
    if data.pair_paths:
        check_texts(map(answers.whole, answers.light), markup)
    baseline = None if wanted.baseline is None else read_graded(wanted.baseline)

    summarise = partial(summarise_rewards, k=wanted.k, seed=wanted.seed)
    with domain.make_grader(grading) as grader:
        print(grader.describe())
        settings = grading_settings(domain, dialogues, grading, grader)
        if baseline is not None:
            check_baseline(baseline, dialogues.result, answers.light, settings, domain.draws_pages, wanted.mix_humans)
        grade_file(domain, dialogues, answers, grader, settings, summarise, step.overwrite)

    file = TrajectoryFile(dialogues.result)
    summary = summarise(file.scan())
    if baseline is not None and summary["graded"]:
        wins = win_rate(read_graded(dialogues.result), baseline, wanted.seed, wanted.mix_humans)
        summary["win_rate"] = wins.to_dict() | {"baseline": wanted.baseline}
    print(summary_text(summary))
    print(f"{dialogues.result}: {len(file.light)} graded dialogues")
    if not summary["graded"]:
        raise NothingMade(
            f"{dialogues.result}: none of the {len(file.light)} dialogues has a reward, for the reasons above. "
            "Dialogues that failed are played again with --retry_failed of simulate_interactions.py."
        )

    write_training_data(data, dialogues.result, file, markup, domain.min_gap, step.overwrite)
