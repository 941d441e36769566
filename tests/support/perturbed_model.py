"""A critic that differs a little from the packaged mini agent, whose tokens it has."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from sweet_rl.models.weights import model_path


def save_perturbed_mini(path: Path) -> str:
    """Save the mini agent with noise on its weights; the path."""
    shutil.copytree(model_path("mini"), path)
    model = AutoModelForCausalLM.from_pretrained(path)
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.02 * torch.randn_like(weight)
    model.save_pretrained(path)
    return str(path)
