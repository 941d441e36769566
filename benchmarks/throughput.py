"""Training speed of this machine in tokens per second, and an estimate of the time that the paper's run takes.

    python benchmarks/throughput.py
    python benchmarks/throughput.py --shape 8b --lora_rank 16              # on a GPU
    python benchmarks/throughput.py --hardware "my box=gpus:2,tflops:165,used:0.35,memory:24,lora:true"

Measured: whole training steps (forward, backward, AdamW) on rows of SWEET-RL's turn pairs (a prompt of 1,000 tokens
and eight completions of 60), in tokens that go through the model. Estimated: floating-point operations of the paper's
run for 8B parameters, divided by `gpus * tflops * used`, where `used` is the assumed share of the peak that a training
reaches. The estimates are not measurements of this package.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass

import numpy as np
import torch
from random_model import SHAPES, config_of, save_random_model

from sweet_rl.models.log_probs.attention import share_prompts
from sweet_rl.models.log_probs.logps import completion_logps, on_device
from sweet_rl.models.log_probs.rows import EncodedText, lay_out
from sweet_rl.models.weights import load_weights
from sweet_rl.runs.cli import run
from sweet_rl.runs.errors import UserError
from sweet_rl.training.lora import with_adapter

BILLION = 1e9
BATCH, MICRO, PAIRS_TOGETHER = 8, 4, 4  # of configs/paper
PARAMETERS = 8.03 * BILLION


@dataclass(frozen=True)
class Workload:
    """The paper's Backend run in tokens. The dialogues' lengths are assumptions; the rest is Table 5 and Section 5.

    A dialogue: a prompt (instructions, task, reference solution) and what follows it. Success of the untrained agent
    22.4 %, taken as independent between the three dialogues of a task: 52 % of the tasks have both kinds.
    """

    tasks: int = 5000
    dialogues: int = 3
    success: float = 0.224
    prompt: int = 450
    rest: int = 900
    turns: int = 7
    turn_prompt: int = 900
    reply: int = 60
    candidates: int = 16
    pairs_a_turn: int = 4
    critic_epochs: int = 4
    actor_share: float = 0.1

    @property
    def mixed_tasks(self) -> float:
        """Tasks with a success and a failure, each with two pairs of three dialogues."""
        return self.tasks * (1 - self.success**self.dialogues - (1 - self.success) ** self.dialogues)

    def critic_tokens(self, together: int) -> float:
        """Of one epoch over trajectory pairs; `together` pairs of a task share a row, so that its prompt and the
        dialogue that both pairs have are computed once."""
        if together == 1:
            return self.mixed_tasks * 2 * (self.prompt + 2 * self.rest)
        return self.mixed_tasks * (self.prompt + self.dialogues * self.rest)

    @property
    def actor_turns(self) -> float:
        return self.tasks * self.actor_share * self.dialogues * self.turns

    def actor_tokens(self, together: int) -> float:
        """Of one epoch over turn pairs; `together` pairs of a turn share a row, so that its prompt is computed once."""
        prompts = -(-self.pairs_a_turn // together)
        return self.actor_turns * (prompts * self.turn_prompt + 2 * self.pairs_a_turn * self.reply)

    @property
    def ranked_tokens(self) -> float:
        """Through critic and reference, each turn's candidates in one row."""
        return 2 * self.actor_turns * (self.turn_prompt + self.candidates * self.reply)

    def trained_tokens(self, together: int) -> float:
        return self.critic_epochs * self.critic_tokens(together) + self.actor_tokens(together)

    @property
    def scored_tokens(self) -> float:
        """Ranking, and both trainings' reference log-probs, for which all texts with the same prompt share it."""
        return self.ranked_tokens + self.critic_tokens(self.pairs_a_turn) + self.actor_tokens(self.pairs_a_turn)


@dataclass(frozen=True)
class Hardware:
    """GPUs with `tflops` (bfloat16, dense, of the data sheet) and `memory` GB each, of whose peak `used` is reached;
    `lora`: an adapter is trained; `micro`: --micro_train_batch_size."""

    name: str
    gpus: int
    tflops: float
    used: float
    memory: float
    lora: bool
    micro: int = MICRO

    @property
    def share(self) -> int:
        """Pairs of a batch that one process has."""
        return max(1, BATCH // self.gpus)

    @property
    def together(self) -> int:
        """Pairs with the same prompt that one process computes at the same time."""
        return min(PAIRS_TOGETHER, self.micro, self.share)

    def hours(self, work: Workload, parameters: float) -> float:
        """Two operations a parameter and token forward, two more backward for the activations, two for the weights
        unless they are frozen, and two because activations are computed again (gradient checkpointing)."""
        training = 6 if self.lora else 8
        operations = parameters * (training * work.trained_tokens(self.together) + 2 * work.scored_tokens)
        return operations / (self.gpus * self.tflops * 1e12 * self.used) / 3600

    def gigabytes(self, parameters: float, row: int = 8192, hidden: int = 4096, layers: int = 32) -> float:
        """A GPU's share: bfloat16 weights; where they are trained, gradients (bfloat16; float32 if those of several
        micro-batches add up) and float32 weights and Adam moments, split by ZeRO-3; an adapter of rank 16; kept
        activations of a row; 2 GB for what is in work."""
        gradients = 4 if self.micro < self.share else 2
        state = 2 * parameters + 16 * 42e6 if self.lora else (14 + gradients) * parameters / self.gpus
        return (state + 2 * row * hidden * layers) / BILLION + 2


KNOWN = (
    Hardware("one H200, LoRA", 1, 989, 0.35, 141, True),
    Hardware("one H200, all weights, ZeRO-2, --micro_train_batch_size 8", 1, 989, 0.35, 141, False, micro=8),
    Hardware("one 24 GB GPU (RTX 4090), LoRA", 1, 165, 0.35, 24, True),
    Hardware("8 H100, all weights, ZeRO-3", 8, 989, 0.30, 80, False),
)


def hardware_of(text: str) -> Hardware:
    """`name=gpus:N,tflops:X,used:X,memory:X,lora:true`. Raises UserError."""
    name, _, fields = text.partition("=")
    try:
        given = dict(field.split(":") for field in fields.split(","))
        return Hardware(
            name, int(given["gpus"]), float(given["tflops"]), float(given["used"]), float(given["memory"]),
            given.get("lora", "false").lower() == "true",
        )  # fmt: skip
    except (KeyError, ValueError) as error:
        raise UserError(
            f"--hardware is {text!r}; it must be like 'my box=gpus:2,tflops:165,used:0.35,memory:24,lora:true' "
            f"({error})."
        ) from error


def measured_tokens_per_second(
    shape: str, dtype: torch.dtype, lora_rank: int | None, rows: int, steps: int, seed: int
) -> tuple[float, int, float]:
    """Return tokens per second in training steps, the number of parameters, and the peak GPU memory in GB."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as folder:
        save_random_model(folder, shape, dtype, device)
        model = load_weights(folder, dtype).to(device).train()
    parameters = model.num_parameters()
    if lora_rank:
        model = with_adapter(model, lora_rank)
    if not share_prompts(model):
        raise UserError(f"the model of shape {shape} does not share prompts.")
    model.gradient_checkpointing_enable({"use_reentrant": False}) if device == "cuda" else None
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-6)
    draw, vocabulary = np.random.default_rng(seed), config_of(shape).vocab_size
    texts = []
    for _ in range(rows):
        head = draw.integers(3, vocabulary, 1000)
        for _ in range(8):
            ids = np.concatenate([head, draw.integers(3, vocabulary, 60)])
            texts.append(EncodedText.build(ids, [False] * 1000 + [True] * 60, "text"))
    batch = on_device(lay_out(texts, row_tokens=65536), torch.device(device))
    began = 0.0
    for step in range(steps + 1):
        if step == 1:  # the first one compiles, allocates and makes the optimiser's state
            began = time.perf_counter()
        completion_logps(model, batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if device == "cuda":
            torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    memory = torch.cuda.max_memory_allocated() / BILLION if device == "cuda" else 0.0
    return steps * int((batch["blocks"] >= 0).sum()) / seconds, parameters, memory


def main(
    shape: str = "25m",
    dtype: str = "auto",
    lora_rank: int | None = None,
    rows: int = 1,
    steps: int = 3,
    hardware: str | None = None,
    measure: bool = True,
    threads: int = 2,
    seed: int = 0,
) -> None:
    """Measure this machine and print the table.

    Args:
        shape: of the random Llama: 25m, 135m, 1b, 3b or 8b
        dtype: float32, bfloat16, or auto (bfloat16 on a GPU)
        rows: turns (of four pairs) a step
        hardware: another line of the table: name=gpus:N,tflops:X,used:X,memory:X,lora:true
        measure: nomeasure prints the arithmetic only
    """
    if shape not in SHAPES:
        raise UserError(f"--shape is {shape!r}; it must be one of {', '.join(SHAPES)}.")
    lines = [*KNOWN, *([hardware_of(hardware)] if hardware else [])]
    torch.set_num_threads(threads)
    work = Workload()
    for together in (4, 1):
        print(
            f"the paper's Backend run, {together} pair(s) together in a process: "
            f"{work.trained_tokens(together) / 1e6:.1f} million tokens trained ({work.critic_epochs} x "
            f"{work.critic_tokens(together) / 1e6:.1f} critic, {work.actor_tokens(together) / 1e6:.1f} policy), "
            f"{work.scored_tokens / 1e6:.1f} million scored"
        )
    print("| hardware (8B parameters) | GB a GPU, rows of 8,192 tokens | fits | hours, estimated |")
    print("| --- | ---: | --- | ---: |")
    for one in lines:
        need = one.gigabytes(PARAMETERS)
        fits = "yes" if need < 0.95 * one.memory else "no"
        print(
            f"| {one.name}: {one.tflops:.0f} TFLOPS x {one.gpus}, {one.used:.0%} used | {need:.0f} of {one.memory:.0f} "
            f"| {fits} | {one.hours(work, PARAMETERS):.1f} |"
        )
    if not measure:
        return
    kind = ("bfloat16" if torch.cuda.is_available() else "float32") if dtype == "auto" else dtype
    speed, parameters, memory = measured_tokens_per_second(shape, getattr(torch, kind), lora_rank, rows, steps, seed)
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{threads} threads of this processor"
    print(
        f"measured on {where}, {kind}, {parameters / 1e6:.0f} million parameters"
        f"{f', LoRA of rank {lora_rank}' if lora_rank else ''}: {speed:.0f} tokens/s trained"
        + (f", peak {memory:.1f} GB" if memory else "")
    )
    seconds = work.trained_tokens(4) / speed + work.scored_tokens / (3 * speed)
    print(
        f"the paper's run at that speed, scoring taken as three times as fast: {seconds / 3600:.1f} hours for a model "
        f"of this size; for 8B {PARAMETERS / parameters:.0f} times as long"
    )


if __name__ == "__main__":
    run(main)
