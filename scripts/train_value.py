"""Train a value head on the mean hidden state: the paper's ablation of the critic, and its value function.

    python scripts/train_value.py --pretrain meta-llama/Llama-3.1-8B-Instruct --dataset trajectory_pairs.jsonl \\
        --save_path value_critic
    python scripts/train_value.py --objective classification --pretrain ... --dataset graded.jsonl --save_path value

The frontend critic of the paper, a vision-language model that sees a picture of the reference page:

    python scripts/train_value.py --reference_picture --pretrain Qwen/Qwen2-VL-7B-Instruct --dataset graded.jsonl \\
        --save_path value_critic

rank_best_of_n.py --critic_type value ranks with it. Several GPUs and killed runs: as for train_dpo.py.
"""

from __future__ import annotations

from sweet_rl.method.privileged_information import AFTER, BEFORE, with_hint
from sweet_rl.runs.cli import run
from sweet_rl.training.complete import is_complete, value_settings
from sweet_rl.training.reference_pages import PictureSettings
from sweet_rl.training.settings import DataSettings, TrainingSettings, ValueSettings


def main(
    pretrain: str,
    dataset: str,
    save_path: str,
    value: ValueSettings,
    pictures: PictureSettings,
    data: DataSettings,
    training: TrainingSettings,
    no_prompt: bool = False,
    overwrite: bool = False,
) -> None:
    """Train a model with a value head.

    Args:
        pretrain: Model to start from; directory or hub name.
        dataset: Trajectory pairs (preference) or graded trajectories (classification), JSONL.
        save_path: Directory of the trained model.
        no_prompt: Leave the reference solution out, for classification (pairs hold it or do not).
        overwrite: Replace what another command left in --save_path.
    """
    if pictures.reference_picture:
        from sweet_rl.training.picture_value import train_picture_value

        around = (BEFORE, AFTER)
        train_picture_value(pretrain, dataset, save_path, value, training, data, pictures, around, overwrite)
    elif not is_complete(pretrain, dataset, save_path, value_settings(value, not no_prompt), data, training, overwrite):
        from sweet_rl.training.value import train_value

        hint = None if no_prompt else with_hint
        train_value(pretrain, dataset, save_path, value, training, data, hint, overwrite)


if __name__ == "__main__":
    run(main)
