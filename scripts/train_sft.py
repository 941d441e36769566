"""Rejection fine-tuning: imitate the dialogues that succeeded, the agent's tokens only.

    python scripts/train_sft.py --pretrain meta-llama/Llama-3.1-8B-Instruct --dataset graded.jsonl --save_path rft
    python scripts/train_sft.py --config configs/paper/backend/rejection_fine_tuning.yaml --dataset ... --save_path ...

If a run is killed, the same command continues it.
"""

from __future__ import annotations

from typing import Annotated

from sweet_rl.runs.cli import prefix, run
from sweet_rl.training.complete import is_complete
from sweet_rl.training.settings import DataSettings, TrainingSettings

IMITATION = TrainingSettings(train_batch_size=32)  # the paper, table 5


def main(
    pretrain: str,
    dataset: str,
    save_path: str,
    data: DataSettings,
    training: Annotated[TrainingSettings, prefix(max_pairs_per_prompt=None)] = IMITATION,
    min_reward: float = 1.0,
    overwrite: bool = False,
) -> None:
    """Fine-tune a model on trajectories whose reward is at least --min_reward.

    Args:
        pretrain: Model to start from; directory or hub name.
        dataset: Graded trajectories, or pairs whose chosen texts are imitated (--get_sft), JSONL.
        save_path: Directory of the trained model.
        min_reward: Smallest reward of a dialogue that is imitated.
        overwrite: Replace what another command left in --save_path.
    """
    if is_complete(pretrain, dataset, save_path, {"min_reward": min_reward}, data, training, overwrite):
        return
    from sweet_rl.training.rejection_fine_tuning import train_imitation

    train_imitation(pretrain, dataset, save_path, training, data, min_reward, overwrite)


if __name__ == "__main__":
    run(main)
