"""Steps 3 and 7: train on preference pairs with DPO.

The critic and multi-turn DPO are trained on trajectory pairs, the policy on turn pairs.

    python scripts/train_dpo.py --pretrain meta-llama/Llama-3.1-8B-Instruct --dataset trajectory_pairs.jsonl \\
        --save_path critic --normalize turn --nll_loss_coef 0.01
    python scripts/train_dpo.py --config configs/paper/backend/critic.yaml --dataset ... --save_path ...

Several GPUs: torchrun --nproc_per_node 8 scripts/train_dpo.py ... --zero_stage 3. If a run is killed, the same command
continues it.
"""

from __future__ import annotations

from sweet_rl.models.weights import model_input
from sweet_rl.runs.cli import run
from sweet_rl.runs.released import TRAIN_DPO
from sweet_rl.training.complete import is_complete, preference_settings
from sweet_rl.training.settings import DataSettings, PreferenceSettings, TrainingSettings


def main(
    pretrain: str,
    dataset: str,
    save_path: str,
    preference: PreferenceSettings,
    data: DataSettings,
    training: TrainingSettings,
    ref_pretrain: str | None = None,
    overwrite: bool = False,
) -> None:
    """Train a model on preference pairs with DPO.

    Args:
        pretrain: Model to start from; directory or hub name.
        dataset: Pairs with the fields chosen and rejected, JSONL.
        save_path: Directory of the trained model.
        ref_pretrain: Reference model; by default --pretrain.
        overwrite: Replace what another command left in --save_path.
    """
    reference = ref_pretrain or pretrain
    own, inputs = preference_settings(preference, reference), [model_input(reference)]
    if is_complete(pretrain, dataset, save_path, own, data, training, overwrite, inputs):
        return
    from sweet_rl.training.dpo import train_preferences

    train_preferences(pretrain, dataset, save_path, preference, training, data, ref_pretrain, overwrite)


if __name__ == "__main__":
    run(main, released=TRAIN_DPO)
