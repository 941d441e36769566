"""GRPO: a step of policy gradient on dialogues that the policy has just sampled. One round is

    python -m lab.policy_gradients.collect --agent_model policy --env_model mini --best_of_n 4 \\
        --input_path train.jsonl --output_path trajectories.jsonl
    python scripts/evaluate_code.py --input_path trajectories.jsonl --output_path graded.jsonl
    python -m lab.policy_gradients.train_policy_gradient --pretrain policy --dataset graded.jsonl \
        --save_path next_policy

and the next round begins with --agent_model next_policy. With the credit of each turn, between grading and training:

    python scripts/score_turns.py --model_id critic --input_path graded.jsonl --output_path credited.jsonl
    python -m lab.policy_gradients.train_policy_gradient --turn_weight 0.5 --dataset credited.jsonl ...

lab/policy_gradients/README.md says more. Several GPUs and killed runs: as for train_dpo.py.
"""

from __future__ import annotations

from typing import Annotated

from lab.policy_gradients.settings import PolicyGradientSettings
from sweet_rl.runs.cli import prefix, run
from sweet_rl.training.settings import DataSettings, TrainingSettings

DEFAULTS = TrainingSettings(train_batch_size=64)


def main(
    pretrain: str,
    dataset: str,
    save_path: str,
    objective: PolicyGradientSettings,
    data: DataSettings,
    training: Annotated[TrainingSettings, prefix(max_pairs_per_prompt=None)] = DEFAULTS,
    ref_pretrain: str | None = None,
    overwrite: bool = False,
) -> None:
    """Train the policy that sampled the dialogues, by their rewards relative to their siblings'.

    Args:
        pretrain: Policy that sampled the dialogues; directory or hub name.
        dataset: JSONL of graded trajectories, several per task.
        save_path: Directory of the trained model.
        ref_pretrain: Reference model, with --kl_coef; by default --pretrain. In later rounds give the first model.
        overwrite: Replace what another command left in --save_path.
    """
    from lab.policy_gradients.policy_gradient import train_policy_gradient

    train_policy_gradient(pretrain, dataset, save_path, objective, training, data, ref_pretrain, overwrite)


if __name__ == "__main__":
    run(main)
