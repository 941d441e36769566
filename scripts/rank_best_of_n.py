"""Step 5: ranks every turn's candidates; writes judge_result (best first) and judge_scores.

    python scripts/rank_best_of_n.py --model_id critic --input_path candidates.jsonl --output_path ranked.jsonl

Any language model, without training:

    python scripts/rank_best_of_n.py --critic_type pmi --model_id meta-llama/Llama-3.1-8B-Instruct \
        --input_path candidates.jsonl --output_path ranked.jsonl

A language model that judges, on a server:

    python scripts/rank_best_of_n.py --critic_type judge --model_id meta-llama/Llama-3.1-8B-Instruct \
        --critic_settings '{"hostname": "localhost:8000"}' --input_path candidates.jsonl --output_path judged.jsonl

`--critic_type my_critic.py` is a critic of your own, `--place_answers` puts answers where their reward does
(grade_candidates.py): docs/critics.md.

The prompt of a turn is computed once for all its candidates. A killed run is continued by the same command.
"""

from __future__ import annotations

from sweet_rl.method.critics import CriticFlags
from sweet_rl.method.ranking import rank_file
from sweet_rl.runs.cli import run
from sweet_rl.runs.released import RANK
from sweet_rl.runs.step import StepSettings


def main(
    critic: CriticFlags,
    input_path: str,
    output_path: str,
    step: StepSettings,
    place_answers: bool = False,
) -> None:
    """Rank candidates by a critic.

    Args:
        input_path: Candidates of sample_best_of_n.py, or of grade_candidates.py.
        output_path: The same records, ranked.
        place_answers: Place candidates that answer by the file's answer_rewards. A right answer (reward 1) stands
            above all questions of its turn, any other below them; the critic's order among answers, and among
            questions, stays. Recommended with --reference seed, which gives right answers no credit (docs/critics.md).
    """
    rank_file(critic.chosen, input_path, output_path, step, place_answers)


if __name__ == "__main__":
    run(main, released=RANK)
