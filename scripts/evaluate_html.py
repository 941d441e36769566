"""Step 2 for Frontend Design: grade pages by how similar they look to the reference page, and write trajectory pairs.

    python scripts/evaluate_html.py --input_path trajectories.jsonl --output_path graded.jsonl \
        --preference_path pairs.jsonl --ground_truth_preference_path hinted_pairs.jsonl

    python scripts/evaluate_html.py --input_path test.jsonl --output_path graded.jsonl --baseline other.graded.jsonl

    python scripts/evaluate_html.py --input_path pages.jsonl --output_path graded.jsonl --paper_grader

The reward is the cosine similarity of the image embeddings of the two full-page screenshots (CLIP ViT-B/32 if its
weights can be loaded; the encoder is named in every row). Pages have no network. The input is not changed (except with
--in_place). The same command continues a run that was stopped.
"""

from __future__ import annotations

from typing import Annotated

from sweet_rl.dialogues.frontend.environment import PageGrading
from sweet_rl.dialogues.task_types import load_domain
from sweet_rl.evaluation.evaluate import DialogueTexts, GradedDialogues, SummarySettings, TrainingData, evaluate
from sweet_rl.runs.cli import prefix, run
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.released import EVALUATE_HTML
from sweet_rl.runs.step import StepSettings


def main(
    dialogues: GradedDialogues,
    summary: SummarySettings,
    data: TrainingData,
    texts: DialogueTexts,
    grading: PageGrading,
    step: Annotated[StepSettings, prefix("", limit=None, shard=None)],
    task_type: str = "html",
) -> None:
    """Grade frontend trajectories (or, with --grade_references, the reference pages of a tasks file).

    Args:
        task_type: Domain: html, or the path of a Python file with a DOMAIN that draws pages.
    """
    domain = load_domain(task_type)
    if not domain.draws_pages:
        raise UserError(f"--task_type {task_type} draws no pages: it is graded by evaluate_code.py.")
    evaluate(domain, dialogues, summary, data, texts, grading, step)


if __name__ == "__main__":
    run(main, released=EVALUATE_HTML)
