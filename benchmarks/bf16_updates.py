"""What bfloat16 keeps of a critic's small updates: python -m benchmarks.bf16_updates --pairs FILE --candidates FILE

Released weights lie on the grid of bfloat16, and an update of less than half a step of that grid is lost when the
trained weights are saved in it (--bf16, ZeRO, a merged adapter). A critic is trained at the paper's 2e-7 in float32
from weights on that grid, saved in float32 and rounded. Printed for each number of steps: the share of weights that
rounding puts back where they began, the length of the rounded update over that of the update, and Spearman's rank
correlation, within a turn, of the scores of candidates by the critic with those by the rounded critic and with those by
the seed. The files are the demo's.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr
from transformers import AutoModelForCausalLM, AutoTokenizer

from sweet_rl.models.weights import model_path
from sweet_rl.runs.cli import run
from tests.support.command_line import call


def main(pairs: str, candidates: str, steps: tuple[int, ...] = (100, 400), learning_rate: float = 2e-7) -> None:
    """Print a line for each number of steps.

    Args:
        pairs: Trajectory pairs with the reference solution, JSONL.
        candidates: Candidates, JSONL.
        steps: Numbers of optimiser steps.
        learning_rate: Peak learning rate of the critic.
    """
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        seed = AutoModelForCausalLM.from_pretrained(model_path("mini"), dtype=torch.bfloat16)
        save(seed.float(), base)
        of_seed = scored(base, candidates, Path(folder))
        for count in steps:
            whole, rounded = Path(folder) / f"{count}", Path(folder) / f"{count}_rounded"
            call(
                "train_dpo.py", config="configs/mini/critic.yaml", pretrain=base, dataset=pairs, save_path=whole,
                learning_rate=learning_rate, max_steps=count, train_batch_size=8, beta=0.1,
            )  # fmt: skip
            critic = AutoModelForCausalLM.from_pretrained(whole, dtype=torch.float32)
            before = torch.cat([weight.flatten() for weight in seed.float().parameters()])
            after = torch.cat([weight.detach().flatten() for weight in critic.parameters()])
            kept = after.bfloat16().float()
            save(critic.bfloat16().float(), rounded)
            lost, length = (kept == before).float().mean(), (kept - before).norm() / (after - before).norm()
            of_critic, of_rounded = (scored(model, candidates, Path(folder)) for model in (whole, rounded))
            print(
                f"{count} steps at {learning_rate:g}: {100 * lost:.1f} % of the weights are the seed's again, the "
                f"rounded update has {length:.2f} of the length; rank correlation with the rounded critic "
                f"{agreement(of_critic, of_rounded):.4f}, with the seed {agreement(of_critic, of_seed):.4f}",
                flush=True,
            )


def save(model: torch.nn.Module, folder: Path) -> None:
    """Save the model with the packaged agent's tokenizer."""
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(model_path("mini")).save_pretrained(folder)


def scored(model: Path, candidates: str, folder: Path) -> list[list[float]]:
    """The scores of the candidates of each turn."""
    output = folder / f"{model.name}.jsonl"
    call(
        "rank_best_of_n.py", config="configs/mini/ranking.yaml", model_id=model, input_path=candidates,
        output_path=output,
    )  # fmt: skip
    return [json.loads(line)["judge_scores"] for line in open(output, encoding="utf-8")]


def agreement(first: list[list[float]], second: list[list[float]]) -> float:
    """The mean rank correlation of the turns whose candidates have several scores."""
    turns = zip(first, second, strict=True)
    return float(np.nanmean([spearmanr(one, other).statistic for one, other in turns if len(set(one)) > 1]))


if __name__ == "__main__":
    run(main)
