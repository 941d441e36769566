"""Before a critic is trained: is the credit of turns right? (docs/train.md)

    python scripts/check_credit.py --model_id AGENT --input_path candidates.jsonl --output_dir checks

It ranks the candidates by PMI (sum, mean, and with the solutions of other tasks) and, with --critic, by a trained
critic with both references; and writes checks/labels.csv, a hundred pairs of candidates. Once a person has labelled
them, the same command says how often each way agrees.
"""

from __future__ import annotations

from typing import Annotated

from sweet_rl.evaluation.credit_checks import CheckSettings, check_credit
from sweet_rl.runs.cli import prefix, run
from sweet_rl.runs.step import StepSettings


def main(
    checks: CheckSettings,
    input_path: str,
    output_dir: str,
    step: Annotated[StepSettings, prefix("", shard=None)],
) -> None:
    """Compare ways to score turns.

    Args:
        input_path: Candidates of sample_best_of_n.py, or of grade_candidates.py.
        output_dir: Folder of the ranked files, the pairs to label and the table.
    """
    check_credit(checks, input_path, output_dir, step)


if __name__ == "__main__":
    run(main)
