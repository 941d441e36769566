"""Step 3 with credit that is centred at each turn: it says what an action adds, and cannot store the dialogue's value.

    python -m lab.ciphered.train_centred --pretrain agent --dataset pairs_with_c.jsonl --save_path critic \\
        --beta 1.0 --normalize turn --centre 1

Equation 2 fits the sum over a dialogue's turns of A(o_t, a_t) = mean over tokens of log pi_theta - log pi_ref. Its mean
over the agent's actions is -KL(pi_ref || pi_theta) at o_t, and nothing keeps that at 0: where o_t tells how the
dialogue will end, the critic can lower all actions at once. With --centre 1 A + KL is summed instead. Its mean over
actions is 0 at every o_t, and only one split of the expected outcome among the turns has this property (Doob's
decomposition of a martingale). With --centre 0 --kl_coef 1 the KL is a penalty beside equation 2, as by train_dpo.py
--kl_coef 1.
The order of candidates of one turn stays that of A, so the critic is used as any other.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from sweet_rl.models.log_probs.divergence import logps_and_kl
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.cli import run, to_settings
from sweet_rl.runs.records import PreferencePair
from sweet_rl.training.bradley_terry import kl_penalty, preference_losses
from sweet_rl.training.dpo import preference_objective
from sweet_rl.training.examples import encode_pairs
from sweet_rl.training.loop import Objective
from sweet_rl.training.reference import frozen_logps
from sweet_rl.training.run import Training
from sweet_rl.training.settings import DataSettings, PreferenceSettings, TrainingSettings


@dataclass(frozen=True)
class CentreSettings:
    """What is done about the mean of the credit over a turn's actions, which is -KL(pi_ref || pi_theta).

    Attributes:
        centre: Share of the KL that is added to the log-ratio: 0 is equation 2, 1 is centred credit.
        imitation_coef: As kl_coef, with the log-probs of the sampled tokens of both texts in place of the KL, whose
            mean they are: the agent sampled them from pi_ref. It needs no second model.
    """

    centre: float = 1.0
    imitation_coef: float = 0.0


def centred_losses(outputs: Tensor, batch: dict[str, Any], how: PreferenceSettings, centring: CentreSettings) -> tuple:
    """The sum over pairs of the loss with centred credit, and figures for the log."""
    logps, kl = outputs.unbind(1)
    texts, pairs = len(batch["starts"]), batch["pairs"]
    # The KL enters as if the reference were lower, so that the NLL of the chosen texts is that of equation 2.
    reference = batch["reference"] - centring.centre * kl
    loss, figures = preference_losses(logps, reference, batch["text"], batch["turn"], texts, pairs, how)
    places = batch["text"], batch["turn"], texts, pairs, how.normalization
    total = kl_penalty(kl, *places)
    loss = loss + how.kl_coef * total + centring.imitation_coef * kl_penalty(batch["reference"] - logps, *places)
    return loss, figures | {"kl": total}


def main(
    pretrain: str,
    dataset: str,
    save_path: str,
    preference: PreferenceSettings,
    data: DataSettings,
    training: TrainingSettings,
    centring: CentreSettings,
    overwrite: bool = False,
) -> None:
    """Train the critic.

    Args:
        pretrain: Model to start from, and the reference; directory or hub name.
        dataset: Trajectory pairs with the reference solution, JSONL.
        save_path: Directory of the critic.
        overwrite: Replace what another command left in --save_path.
    """
    run_of = Training(pretrain, dataset, save_path, training, data, overwrite)
    recorded = to_settings(preference, centring) | {"normalize": preference.normalization}
    with run_of.opened(recorded) as unfinished:
        if not unfinished:
            return
        chat = ChatFormat.from_pretrained(run_of.weights)
        examples = encode_pairs(run_of.read(PreferencePair), chat, data, dataset)
        split = run_of.split(examples)
        reference = frozen_logps(examples.texts, run_of.weights, run_of)
        frozen = run_of.load_frozen(run_of.weights)
        model = run_of.trainable(run_of.load_weights(run_of.weights))
        share = run_of.share_prompts(model) and run_of.share_prompts(frozen)
        plain = preference_objective(examples, reference, preference, share)
        losses = functools.partial(centred_losses, how=preference, centring=centring)
        objective = Objective(plain.collate, losses, functools.partial(logps_and_kl, frozen))
        counts = {"pairs": len(examples), "texts": len(examples.texts)}
        run_of.fit(model, objective, examples, split, counts, chat)


if __name__ == "__main__":
    run(main)
