"""Checks of gpu_check.py: is what the GPU computes right? An exception is a failed check."""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from dpo import turn_pairs
from gpu_scale import LORA_RANK, Line, Scale, first_loss_line, random_llama, random_turns
from random_model import config_of, save_random_model

from sweet_rl.models.log_probs.attention import USUAL, RowAttention, attend, share_prompts
from sweet_rl.models.log_probs.logps import ROW_TOKENS, completion_logps, on_device
from sweet_rl.models.log_probs.rows import lay_out
from sweet_rl.training.dpo import train_preferences
from sweet_rl.training.settings import DataSettings, PreferenceSettings, TrainingSettings

TRAIN = Path(__file__).resolve().parents[1] / "scripts" / "train_dpo.py"


def attention(scale: Scale) -> list[Line]:
    """Attention over shared rows against SDPA with a mask, at many row lengths: outputs and gradients."""
    heads, key_heads, size = 8, 2, 64
    lines, worst = [], {torch.float32: 0.0, torch.bfloat16: 0.0}
    for dtype in worst:
        for turns in range(1, 4 if scale.device == "cpu" else 13):
            batch = on_device(lay_out(random_turns(scale, turns, 100, seed=turns), True, ROW_TOKENS), scale.device)
            rows = RowAttention(batch["layout"], batch["blocks"], batch["completions"])
            shape = (len(batch["blocks"]), batch["blocks"].shape[1], size)
            draw = torch.Generator(scale.device).manual_seed(turns)
            q, k, v = (
                torch.randn(shape[0], n, *shape[1:], generator=draw, device=scale.device, dtype=dtype)
                for n in (heads, key_heads, key_heads)
            )
            inputs = [x.requires_grad_() for x in (q, k, v)]
            real = (batch["blocks"] >= 0)[..., None, None]
            ours = attend(USUAL[scale.device], torch.nn.Module(), *inputs, None, rows=rows)[0] * real
            plain = attend("masked", torch.nn.Module(), *inputs, None, rows=rows)[0] * real
            weights = torch.randn(ours.shape, generator=draw, device=scale.device, dtype=dtype)
            found = [torch.autograd.grad((out * weights).sum(), inputs) for out in (ours, plain)]
            pairs = [(ours, plain), *zip(*found, strict=True)]
            gap = max(float(((a - b).abs().max() / b.abs().max()).detach()) for a, b in pairs)
            worst[dtype] = max(worst[dtype], gap)
    for dtype, gap in worst.items():
        limit = 1e-2 if scale.device == "cuda" and dtype == torch.float32 else 1e-5  # TF32 in FlexAttention's products
        limit = 4e-2 if dtype == torch.bfloat16 else limit
        name = str(dtype).removeprefix("torch.")
        lines.append(Line(f"largest relative difference, {name}", f"{gap:.1e}", f"below {limit:.0e}", gap < limit))
    return lines


def shared_rows(scale: Scale) -> list[Line]:
    """Log-probs and gradients of a whole model, prompts shared, against one row per text."""
    texts = random_turns(scale, 2, config_of(scale.small).vocab_size)
    found = []
    for share in (True, False):
        model = random_llama(scale.small, torch.float32, scale.device)
        if share:
            share_prompts(model)
        batch = on_device(lay_out(texts, share, ROW_TOKENS), scale.device)
        logps = completion_logps(model, batch)
        logps.mean().backward()
        norm = torch.cat([p.grad.flatten() for p in model.parameters()])
        found.append((logps.detach(), norm, int((batch["blocks"] >= 0).sum())))
    (ours, gradient, few), (plain, wanted, many) = found
    gap = float((ours - plain).abs().max())
    gradients = float((gradient - wanted).norm() / wanted.norm())
    limit = 1e-4 if scale.device == "cpu" else 5e-2
    return [
        Line("tokens computed, shared and plain", f"{few} and {many}", "", few < many),
        Line("largest difference between log-probs", f"{gap:.1e}", f"below {limit:.0e}", gap < limit),
        Line("relative difference of the gradients", f"{gradients:.1e}", f"below {limit:.0e}", gradients < limit),
    ]


MODES = {
    "float32": {},
    "bf16": {"bf16": True},
    "bf16, gradient checkpointing": {"bf16": True, "gradient_checkpointing": True},
    "one pair at a time": {"micro_train_batch_size": 1},
    "LoRA": {"lora_rank": LORA_RANK},
    "bf16, LoRA": {"bf16": True, "lora_rank": LORA_RANK},
}
DIVIDED_MODES = {
    "not divided": {},
    "ZeRO-2, bf16": {"zero_stage": 2, "bf16": True},
    "ZeRO-3, bf16, gradient checkpointing": {"zero_stage": 3, "bf16": True, "gradient_checkpointing": True},
    "ZeRO-3, bf16, LoRA": {"zero_stage": 3, "bf16": True, "lora_rank": LORA_RANK},
}


def write_pairs(scale: Scale, folder: Path) -> tuple[str, str]:
    """A random model with a tokenizer and pairs of two turns, on disk; their paths."""
    draw, vocabulary = random.Random(0), config_of(scale.small).vocab_size
    rows = [row for _ in range(2) for row in turn_pairs(draw, scale.prompt, scale.tokens, vocabulary)]
    named = {"chosen": "chosen_parts", "rejected": "rejected_parts"}
    lines = [json.dumps({name: row[key] for name, key in named.items()} | {"id": str(i)}) for i, row in enumerate(rows)]
    (folder / "pairs.jsonl").write_text("\n".join(lines) + "\n")
    save_random_model(str(folder / "model"), scale.small, torch.float32, scale.device)
    return str(folder / "model"), str(folder / "pairs.jsonl")


def logged_loss(folder: Path) -> float:
    """The first loss in a training's log."""
    lines = (folder / "training_log.jsonl").read_text().splitlines()
    return next(row["loss"] for row in map(json.loads, lines) if "loss" in row)


def first_loss(scale: Scale) -> list[Line]:
    """The first loss of a DPO training whose reference is the untrained policy."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, pairs = write_pairs(scale, folder)
        lines = []
        for number, (mode, changes) in enumerate(MODES.items()):
            settings = TrainingSettings(learning_rate=1e-6, train_batch_size=8, logging_steps=1, **changes)
            path = folder / str(number)
            train_preferences(model, pairs, str(path), PreferenceSettings(), settings, DataSettings())
            lines.append(first_loss_line(scale, mode, logged_loss(path), settings.bf16))
        return lines


def parallel(scale: Scale) -> list[Line]:
    """The first loss by torchrun, one process per GPU: not divided, and divided by DeepSpeed."""
    deepspeed = importlib.util.find_spec("deepspeed") is not None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, pairs = write_pairs(scale, folder)
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node"]
        launcher.append(str(scale.processes))
        lines = []
        for number, (mode, changes) in enumerate(DIVIDED_MODES.items()):
            if "zero_stage" in changes and not deepspeed:
                lines.append(Line(mode, "DeepSpeed is not installed"))
                continue
            flags = {"pretrain": model, "dataset": pairs, "save_path": folder / str(number), "learning_rate": 1e-6}
            flags |= {"logging_steps": 1, **changes}
            words = [f"--{key}={value}" for key, value in flags.items()]
            done = subprocess.run([*launcher, str(TRAIN), *words], capture_output=True, text=True)
            if done.returncode:
                lines.append(Line(mode, done.stderr.strip()[-500:], "trains", False))
            else:
                loss = logged_loss(folder / str(number))
                lines.append(first_loss_line(scale, mode, loss, changes.get("bf16", False)))
        return lines
