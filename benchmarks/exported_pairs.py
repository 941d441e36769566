"""Exported turn pairs: the loss and the first gradients of TRL's DPOTrainer on them, beside those of this package.

    python -m venv peer && peer/bin/pip install torch==2.13.0 && peer/bin/pip install trl==1.16.0
    bash scripts/run_mini.sh
    python benchmarks/exported_pairs.py --peer_python peer/bin/python --input_path runs/mini/turn_pairs.jsonl

The policy is the packaged `mini`, the reference the same with noise on its weights, so that the loss is not log 2. Both
are in float32. TRL reads the rows of `sweet-rl export` with `datasets`; each side computes one backward pass
over all of them. Compared are the pairs whose sampled tokens are those that the tokenizer makes of their text; the
number of the others is printed. Exits with 1 if a difference is above `--tolerance`.

Found with trl 1.16.0, transformers 5.24.0 and torch 2.13.0+cpu, 64 pairs: the same loss, 1.54536033; gradients of 29
weights (norm 0.3304) that differ by 3.4e-8 in the worst number, 7.2e-7 of the norm.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from sweet_rl.integrations.export import export_file
from sweet_rl.models.log_probs.attention import share_prompts
from sweet_rl.models.log_probs.logps import completion_logps, score_texts
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import load_frozen, load_weights, model_path
from sweet_rl.runs.cli import run
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import PreferencePair, read_records
from sweet_rl.runs.step import StepSettings
from sweet_rl.training.dpo import preference_objective
from sweet_rl.training.examples import encode_pairs
from sweet_rl.training.settings import DataSettings, PreferenceSettings

HERE = Path(__file__).resolve().parent
BETA, NOISE = 0.1, 0.1


def retokenised(pair: PreferencePair) -> PreferencePair:
    """The pair without its sampled token ids."""
    texts = ([{k: v for k, v in part.items() if k != "token_ids"} for part in text] for text in both(pair))
    return replace(pair, **dict(zip(("chosen", "rejected"), texts, strict=True)))


def both(pair: PreferencePair) -> list[list[dict]]:
    return [pair.chosen, pair.rejected]


def ours(policy: str, reference: str, pairs: list[PreferencePair]) -> tuple[float, dict[str, torch.Tensor]]:
    """The mean loss of the pairs and its gradient by the name of the weight."""
    chat = ChatFormat.from_pretrained(policy)
    examples = encode_pairs(pairs, chat, DataSettings())
    logps = score_texts(load_frozen(reference, torch.float32, "cpu"), examples.texts)
    model = load_weights(policy, torch.float32)
    share = share_prompts(model, None, torch.device("cpu"))
    objective = preference_objective(examples, logps, PreferenceSettings(beta=BETA), share)
    batch = objective.collate(list(range(len(pairs))))
    loss, _ = objective.losses(completion_logps(model, batch), batch)
    (loss / len(pairs)).backward()
    return loss.item() / len(pairs), {name: one.grad for name, one in model.named_parameters()}


def main(peer_python: str, input_path: str, pairs: int = 64, tolerance: float = 1e-5) -> None:
    """Compare loss and gradients, and print the differences.

    Args:
        peer_python: Interpreter of an environment with trl.
        input_path: Turn pairs of the packaged agent `mini`.
        pairs: Number of pairs that are read.
        tolerance: Largest difference of the losses, and of the gradients as a share of their norm.
    """
    policy = model_path("mini")
    chat = ChatFormat.from_pretrained(policy)
    read = read_records(input_path, PreferencePair, pairs)
    same = [pair for pair in read if all(chat.encode(text, pair.tokenizer) == chat.encode(text) for text in both(pair))]
    print(f"{len(same)} of {len(read)} pairs have the tokens that the tokenizer makes of their text")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        torch.manual_seed(0)
        noisy = load_weights(policy, torch.float32)
        for weight in noisy.parameters():
            weight.data += NOISE * torch.randn_like(weight)
        noisy.save_pretrained(folder / "reference")
        (folder / "pairs.jsonl").write_text("".join(json.dumps(pair.to_dict()) + "\n" for pair in same))
        export_file(str(folder / "pairs.jsonl"), str(folder / "trl.jsonl"), StepSettings(), "mini")
        job = {"policy": policy, "reference": str(folder / "reference"), "pairs": str(folder / "trl.jsonl")}
        job |= {"beta": BETA, "folder": str(folder)}
        (folder / "job.json").write_text(json.dumps(job))
        words = [peer_python, str(HERE / "peers" / "trl_gradients.py"), str(folder / "job.json")]
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "WANDB_DISABLED": "true"}
        environment.pop("PYTHONPATH", None)
        done = subprocess.run(words, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise UserError(f"{' '.join(words)} failed:\n{done.stderr[-2000:]}")
        theirs = torch.load(folder / "result.pt")
        loss, gradients = ours(policy, job["reference"], same)
    apart = torch.cat([(gradients[name] - value).flatten() for name, value in theirs["gradients"].items()])
    whole = torch.cat([value.flatten() for value in theirs["gradients"].values()])
    share = (apart.norm() / whole.norm()).item()
    print(f"versions: {theirs['versions']}; pairs in the batch: {theirs['pairs']}")
    print(f"loss: sweet_rl {loss:.8f}, TRL {theirs['loss']:.8f}, difference {abs(loss - theirs['loss']):.1e}")
    print(
        f"gradients of {len(theirs['gradients'])} weights: norm {whole.norm():.4f}; largest difference of a number "
        f"{apart.abs().max():.1e}; norm of the difference over the norm {share:.1e}"
    )
    if theirs["gradients"].keys() != gradients.keys() or max(abs(loss - theirs["loss"]), share) > tolerance:
        print(f"above {tolerance:g}")
        sys.exit(1)


if __name__ == "__main__":
    run(main)
