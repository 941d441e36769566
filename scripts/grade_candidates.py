"""Between steps 4 and 5, if wanted: grades the candidates that end the dialogue with an answer.

    python scripts/grade_candidates.py --input_path candidates.jsonl --output_path graded_candidates.jsonl
    python scripts/rank_best_of_n.py --model_id critic --place_answers --input_path graded_candidates.jsonl \
        --output_path ranked.jsonl

Each record gets `answer_rewards`: for each candidate its reward, or null if it is no answer or its task cannot be
graded. A killed run is continued by the same command.
"""

from __future__ import annotations

from typing import Annotated

from sweet_rl.dialogues.backend.environment import CodeGrading
from sweet_rl.dialogues.candidate_rewards import grade_candidates
from sweet_rl.dialogues.task_types import load_domain
from sweet_rl.runs.cli import prefix, run
from sweet_rl.runs.step import StepSettings


def main(
    input_path: str,
    output_path: str,
    grading: CodeGrading,
    step: Annotated[StepSettings, prefix("", shard=None)],
    task_type: str = "code",
) -> None:
    """Grade the candidates that end the dialogue, by the answer that the dialogue then has.

    Args:
        input_path: Candidates of sample_best_of_n.py.
        output_path: The same records with `answer_rewards`.
        task_type: Domain: code, mini, or the path of a Python file with a DOMAIN (docs/your_own_domain.md).
    """
    grade_candidates(load_domain(task_type), grading, input_path, output_path, step)


if __name__ == "__main__":
    run(main)
