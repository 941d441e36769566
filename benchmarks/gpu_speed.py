"""Checks of gpu_check.py: how fast are training and ranking, and how much memory do they take?"""

from __future__ import annotations

import importlib.util
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from dpo import Lengths, compare, rows_of
from gpu_scale import LORA_RANK, Line, Scale, first_loss_line, random_llama, random_turns
from random_model import config_of, save_random_model
from ranking import one_by_one
from timing import in_turns, ratios, spread

from sweet_rl.models.log_probs.attention import share_prompts
from sweet_rl.models.log_probs.logps import score_texts
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.models.weights import freeze
from sweet_rl.training.checkpoints import Checkpoints
from sweet_rl.training.dpo import preference_objective
from sweet_rl.training.examples import Examples
from sweet_rl.training.log import Log
from sweet_rl.training.loop import train
from sweet_rl.training.lora import with_adapter
from sweet_rl.training.run import make_engine
from sweet_rl.training.settings import PreferenceSettings, TrainingSettings

BYTES = 20  # of memory per weight that is trained: itself, its gradient, AdamW, activations


def train_shape(scale: Scale, shape: str, lora: bool) -> list[Line]:
    """Training steps of one shape in bfloat16: speed and memory."""
    config = config_of(shape)
    texts = random_turns(scale, scale.turns * (scale.steps + 1), config.vocab_size)
    name = f"{shape}, {'LoRA' if lora else 'all weights'}"
    capacity = torch.cuda.get_device_properties(0).total_memory if scale.device == "cuda" else math.inf
    model = random_llama(shape, torch.bfloat16, scale.device)
    too_large = not lora and BYTES * model.num_parameters() > capacity
    if too_large:  # for its speed: weights and optimiser in bfloat16, half as much
        name += " in bfloat16"
    settings = TrainingSettings(
        learning_rate=1e-6, train_batch_size=4 * scale.turns, max_pairs_per_prompt=4, logging_steps=1,
        bf16=not too_large, gradient_checkpointing=True, lora_rank=LORA_RANK if lora else None,
        min_learning_rate_ratio=1.0, warmup_ratio=0.0,
        save_minutes=None,  # a checkpoint has up to 16 bytes per parameter
    )  # fmt: skip
    if not too_large and not lora:
        model = model.float()
    pairs = np.arange(len(texts)).reshape(-1, 2)
    examples = Examples(texts, pairs, [None] * len(pairs))
    share = share_prompts(model)
    with torch.autocast(scale.device, torch.bfloat16, enabled=settings.bf16):
        reference = score_texts(model.eval(), texts, 16384, share)
    model.train()
    model = with_adapter(model, LORA_RANK, autocast=settings.autocast) if lora else model
    lines: list[Line] = []
    engine = make_engine(settings)
    log = Log(engine.accelerator, [], "")
    objective = preference_objective(examples, reference, PreferenceSettings(), share)
    split = np.arange(len(pairs)), pairs[:0, 0]
    train(model, objective, examples, split, engine, log, Checkpoints(Path(), settings, engine), together=4)
    lines.append(first_loss_line(scale, f"{name}: first loss", log.history[0]["loss"], bf16=True))
    speeds = [row["tokens_per_second"] for row in log.history[1:]]
    lines.append(Line(f"{name}: tokens per second", spread(speeds, 0)))
    if scale.device == "cuda":
        peak = torch.cuda.max_memory_allocated() / 1e9
        lines.append(Line(f"{name}: peak memory", f"{peak:.1f} GB"))
    return lines


def ranking(scale: Scale) -> list[Line]:
    """Candidates per second, prompts shared, against one whole sequence per candidate."""
    dtype = torch.bfloat16 if scale.device == "cuda" else torch.float32
    ways = ("shared", "whole")
    models = {way: freeze(random_llama(scale.ranked, dtype, scale.device), scale.device) for way in ways}
    draw, vocabulary = np.random.default_rng(0), config_of(scale.ranked).vocab_size
    prompt = draw.integers(3, vocabulary, scale.prompt)
    train = [False] * scale.prompt + [True] * scale.tokens
    texts = [
        EncodedText.build(np.concatenate([prompt, draw.integers(3, vocabulary, scale.tokens)]), train, "a candidate")
        for _ in range(16)
    ]
    times = in_turns(
        {
            "shared": lambda: score_texts(models["shared"], texts, 16384),
            "whole": lambda: one_by_one(models["whole"], texts, 16, everywhere=False),
        },
        scale.steps,
    )
    ours, theirs = times["shared"], times["whole"]
    models.clear()  # the same weights in float32 take twice the memory
    exact = one_by_one(in_float32(scale.ranked, dtype, scale.device), texts, 4, everywhere=False)
    return [
        Line(f"{scale.ranked}: candidates per second", spread([16 / t for t in ours.wall], 1)),
        Line("times one sequence per candidate", spread(ratios(theirs.wall, ours.wall))),
        rounding_line("log-probs", ours.result, theirs.result, exact),
    ]


def in_float32(shape: str, dtype: torch.dtype, device: str) -> torch.nn.Module:
    """The model that `random_llama` gives in a dtype, computing in float32."""
    return freeze(random_llama(shape, dtype, device).float(), device)


def rounding_line(
    name: str, found: Sequence[np.ndarray], plain: Sequence[np.ndarray], exact: Sequence[np.ndarray]
) -> Line:
    """Whether `found` is as near to float32 as a plain way in the same number format: mean distances, worst texts."""
    ours, theirs = (max(float(np.abs(a - b).mean()) for a, b in zip(x, exact, strict=True)) for x in (found, plain))
    wanted = f"at most 1.5 times the plain way's {theirs:.1e}"
    return Line(f"{name}: distance from float32", f"{ours:.1e}", wanted, ours <= max(1.5 * theirs, 1e-5))


def trl(scale: Scale) -> list[Line]:
    """Pairs per second on turn pairs beside TRL's DPOTrainer (benchmarks/dpo.py)."""
    python = scale.peer_python or (sys.executable if importlib.util.find_spec("trl") else None)
    if python is None:
        return [Line("TRL", "not installed: give --peer_python")]
    shape, micro = scale.trained[0], 4
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dtype = "bfloat16" if scale.device == "cuda" else "float32"
        save_random_model(str(folder / "model"), shape, getattr(torch, dtype), scale.device)
        lengths = Lengths(prompt=scale.prompt, tokens=scale.tokens)
        job = {
            "model": str(folder / "model"), "folder": str(folder / "out"), "batch": micro, "dtype": dtype,
            "pairs": rows_of("turn", 6 * scale.steps * micro, config_of(shape).vocab_size, lengths, 0),
            "learning_rate": 1e-5, "beta": 0.1, "threads": 2, "gradient_checkpointing": False, "steps": scale.steps,
        }  # fmt: skip
        line = compare("turn", job, python, [micro], 5, folder)
    return [Line("turn pairs", line)]
