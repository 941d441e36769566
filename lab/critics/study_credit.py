"""A study of credit: candidates scored by every combination of critic, reference and aggregation (docs/critics.md).

    python lab/critics/study_credit.py --model_id mini --input_path candidates.jsonl --output_path study.jsonl \
        --reply --env_model mini --task_type mini
    python lab/critics/study_credit.py --model_id critic --reference_model_id mini \
        --input_path candidates.jsonl --output_path study_200.jsonl
    python scripts/measure_mini_credit.py --studies 0=study.jsonl,200=study_200.jsonl --markdown_path study.md

The first scores by critics without training, the second by a trained one; a row is what rank_best_of_n.py gives with
its flags. A killed run is continued by the same command.
"""

from __future__ import annotations

from typing import Annotated

from lab.critics.asked_human import AskedSettings
from lab.critics.study import StudySettings, study_file
from sweet_rl.cli import prefix, run
from sweet_rl.domains import HumanSettings
from sweet_rl.models.settings import ModelSettings
from sweet_rl.task_types import load_domain


def main(
    study: StudySettings,
    input_path: str,
    output_path: str,
    asked: AskedSettings,
    env: Annotated[ModelSettings, prefix("env_", tokenizer=None)],
    human: Annotated[HumanSettings, prefix("env_")],
    limit: int | None = None,
    overwrite: bool = False,
) -> None:
    """Score candidates by all rows of a study.

    Args:
        input_path: candidates of sample_best_of_n.py.
        output_path: the same records with `scores`: for each row one score per candidate.
        limit: number of records that are read; default: all.
        overwrite: replace an output of other settings.
    """
    study_file(study, input_path, output_path, limit, overwrite, asked.human(load_domain, env, human))


if __name__ == "__main__":
    run(main)
