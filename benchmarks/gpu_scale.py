"""What the checks of gpu_check.py share: their sizes, random data and models, and the lines that they return."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from random_model import config_of
from transformers import LlamaForCausalLM

from sweet_rl.models.log_probs.rows import EncodedText

LORA_RANK = 16
LN2 = math.log(2)


@dataclass(frozen=True)
class Line:
    """One figure: what was measured, what was found, what was wanted, and whether it is right (None: no wish)."""

    name: str
    found: str
    wanted: str = ""
    right: bool | None = None


@dataclass(frozen=True)
class Scale:
    """The sizes of a run of the checks.

    Attributes:
        device: cuda or cpu.
        small: shape for exactness (float32) and first losses.
        trained: shapes that are trained, timed and counted.
        ranked: shape that ranks.
        prompt, tokens: lengths of a prompt and of a completion.
        turns: turns of eight completions in a training step, and in the ranking.
        steps: timed training steps, and repeats of timed work.
        processes: of the checks under torchrun.
        peer_python: interpreter that has TRL.
    """

    device: str = "cuda"
    small: str = "25m"
    trained: tuple[str, ...] = ("1b", "8b")
    ranked: str = "8b"
    prompt: int = 1000
    tokens: int = 60
    turns: int = 8
    steps: int = 5
    processes: int = 1
    peer_python: str | None = None


def first_loss_line(scale: Scale, name: str, loss: float, bf16: bool) -> Line:
    """The first loss of a training whose reference is the untrained policy: ln 2.

    On a GPU the rounding of bfloat16 depends on a text's place in its row, and reference and training have other rows.
    """
    limit = 1e-2 if bf16 and scale.device == "cuda" else 1e-4
    return Line(name, f"{loss:.6f}", f"ln 2 = {LN2:.6f} within {limit:.0e}", abs(loss - LN2) < limit)


CPU = Scale("cpu", "tiny", ("tiny",), "tiny", prompt=40, tokens=6, turns=2, steps=2)


def random_turns(scale: Scale, turns: int, vocabulary: int, completions: int = 8, seed: int = 0) -> list[EncodedText]:
    """`completions` random texts for each of `turns` prompts; lengths vary a little."""
    draw, texts = np.random.default_rng(seed), []
    for _ in range(turns):
        prompt = draw.integers(3, vocabulary, scale.prompt - draw.integers(0, scale.prompt // 8))
        for _ in range(completions):
            own = draw.integers(3, vocabulary, scale.tokens - draw.integers(0, scale.tokens // 4 + 1))
            train = [False] * len(prompt) + [True] * len(own)
            texts.append(EncodedText.build(np.concatenate([prompt, own]), train, "a random turn"))
    return texts


def random_llama(shape: str, dtype: torch.dtype, device: str) -> torch.nn.Module:
    """A Llama of a named shape with random weights, on the device."""
    torch.manual_seed(0)
    with torch.device(device):
        return LlamaForCausalLM._from_config(config_of(shape), dtype=dtype)
