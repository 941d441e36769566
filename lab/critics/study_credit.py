"""A study of credit: candidates scored by every combination of critic, reference and aggregation.

    python -m lab.critics.study_credit --model_id mini --input_path candidates.jsonl --output_path study.jsonl \
        --env_model mini --task_type mini
    python -m lab.critics.study_credit --model_id critic --reference_model_id mini \
        --input_path candidates.jsonl --output_path study_200.jsonl
    python -m lab.critics.measure_study --studies 0=study.jsonl,200=study_200.jsonl --markdown_path study.md

The first scores by critics without training, the second by a trained one. With --env_model there are also rows of
critics that hear the human's reply to each candidate. A killed run is continued by the same command.
"""

from __future__ import annotations

from typing import Annotated

from lab.critics.asked_human import AskedHuman
from lab.critics.study import StudySettings, study_file
from sweet_rl.runs.cli import prefix, run
from sweet_rl.runs.step import StepSettings


def main(
    study: StudySettings,
    input_path: str,
    output_path: str,
    asked: Annotated[AskedHuman, prefix("", env=None, human=None)],
    step: Annotated[StepSettings, prefix("", shard=None)],
) -> None:
    """Score candidates by all rows of a study.

    Args:
        input_path: Candidates of sample_best_of_n.py.
        output_path: The same records with `scores`: for each row one score per candidate.
    """
    study_file(study, asked, input_path, output_path, step)


if __name__ == "__main__":
    run(main)
