"""This package's side of benchmarks/dpo.py, a process of its own so that its memory is its own:

python sweet_dpo.py job.json result.json
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from clock import Clock, peak_bytes

from sweet_rl.models.log_probs.attention import share_prompts
from sweet_rl.models.log_probs.logps import score_texts
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import load_frozen, load_weights
from sweet_rl.runs.records import PreferencePair
from sweet_rl.training.batches import epoch_steps, prompt_groups
from sweet_rl.training.checkpoints import Checkpoints
from sweet_rl.training.dpo import preference_objective
from sweet_rl.training.examples import encode_pairs
from sweet_rl.training.log import Log
from sweet_rl.training.loop import train
from sweet_rl.training.run import make_engine
from sweet_rl.training.settings import DataSettings, PreferenceSettings, TrainingSettings


def main(job_path: str, result_path: str) -> None:
    job = json.loads(Path(job_path).read_text())
    torch.set_num_threads(job["threads"])
    settings = TrainingSettings(
        learning_rate=job["learning_rate"], train_batch_size=job["batch"], micro_train_batch_size=job["batch"],
        min_learning_rate_ratio=1.0, warmup_ratio=0.0, logging_steps=1, max_pairs_per_prompt=job["batch"],
        save_minutes=None,
        gradient_checkpointing=job["gradient_checkpointing"], adam_betas=(0.9, 0.999),  # TRL's
    )  # fmt: skip
    engine = make_engine(settings)
    pairs = [PreferencePair.from_dict({"id": str(number)} | row) for number, row in enumerate(job["ours"])]
    chat = ChatFormat.from_pretrained(job["model"])
    examples = encode_pairs(pairs, chat, DataSettings())
    dtype = getattr(torch, job["dtype"])
    reference = score_texts(load_frozen(job["reference"] or job["model"], dtype, engine.device), examples.texts)
    clock = Clock()

    step = engine.step

    def timed(rate: float) -> torch.Tensor:
        norm = step(rate)
        clock.step()
        return norm

    engine.step = timed
    model = load_weights(job["model"], dtype)
    share = share_prompts(model, None, engine.device)
    objective = preference_objective(examples, reference, PreferenceSettings(beta=job["beta"]), share)
    together = settings.max_pairs_per_prompt
    groups = prompt_groups(examples, together)
    steps = epoch_steps(groups, examples.lengths, job["batch"], settings.seed, epoch=0)
    order = np.concatenate(steps).tolist()
    Path(job["order"]).write_text(json.dumps(order))
    log = Log(engine.accelerator, [], job["folder"])
    train(model, objective, examples, engine, log, Checkpoints(Path(job["folder"]), settings, engine), together)
    result = {
        "seconds": clock.seconds,
        "losses": [line["loss"] for line in log.history],
        "peak_bytes": peak_bytes(),
    }
    Path(result_path).write_text(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
