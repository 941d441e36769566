"""Step 2: grade answers and write trajectory pairs. Backend Programming: answers are run on hidden unit tests.

    python scripts/evaluate_code.py --input_path trajectories.jsonl --output_path graded.jsonl \
        --preference_path pairs.jsonl --ground_truth_preference_path hinted_pairs.jsonl

    python scripts/evaluate_code.py --input_path tasks.jsonl --output_path references.jsonl --grade_references

    python scripts/evaluate_code.py --input_path dialogues.jsonl --output_path graded.jsonl --paper_grader

    python scripts/evaluate_code.py --task_type my_domain.py --input_path trajectories.jsonl --output_path graded.jsonl

The input is not changed (except with --in_place), and every answer is graded anew, whatever reward the file holds. The
same command continues a run that was stopped.
"""

from __future__ import annotations

from typing import Annotated

from sweet_rl.dialogues.backend.environment import CodeGrading
from sweet_rl.dialogues.task_types import load_domain
from sweet_rl.evaluation.evaluate import DialogueTexts, GradedDialogues, SummarySettings, TrainingData, evaluate
from sweet_rl.runs.cli import prefix, run
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.released import EVALUATE_CODE
from sweet_rl.runs.step import StepSettings


def main(
    dialogues: GradedDialogues,
    summary: SummarySettings,
    data: TrainingData,
    texts: DialogueTexts,
    grading: CodeGrading,
    step: Annotated[StepSettings, prefix("", limit=None, shard=None)],
    task_type: str = "code",
) -> None:
    """Grade trajectories (or, with --grade_references, the reference solutions of a tasks file).

    Args:
        task_type: Domain: code, mini, or the path of a Python file with a DOMAIN (docs/your_own_domain.md).
    """
    domain = load_domain(task_type)
    if domain.draws_pages:
        raise UserError(f"--task_type {task_type} draws pages: it is graded by evaluate_html.py.")
    evaluate(domain, dialogues, summary, data, texts, grading, step)


if __name__ == "__main__":
    run(main, released=EVALUATE_CODE)
