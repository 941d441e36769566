"""The table of docs/hardware.md about the recipes: memory per GPU, hours and disk, calculated.

python benchmarks/recipe_table.py            # prints it, and the figures of each step
python benchmarks/recipe_table.py --write    # puts it into docs/hardware.md

Memory and disk follow from shapes. Hours follow from the numbers of dialogues, turns and steps and from ASSUMED.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from unittest import mock

from memory_table import write_between

from sweet_rl.runs.cli import run
from sweet_rl.training.memory import LLAMA_8B, LLAMA_70B, RESERVE, ModelShape, TrainingSetup, training_memory

BEGIN, END = "<!-- calculated by benchmarks/recipe_table.py -->", "<!-- end of the recipes -->"
QWEN_1B = ModelShape(1536, 28, 12, 2, 8960, 151936, 128, tied=True)  # Qwen2.5-1.5B
LLAMA_3B = ModelShape(3072, 28, 24, 8, 8192, 128256, 128, tied=True)  # Llama 3.2 3B
QWEN_7B = ModelShape(3584, 28, 28, 4, 18944, 152064, 128)  # Qwen2.5-7B, and the text part of Qwen2-VL-7B
ASSUMED = {
    "arithmetic": 0.35,  # share of the peak that trainings and prompts reach, recomputed activations included
    "bandwidth": 0.6,  # share of the memory's bandwidth that decoding reaches
    "link": 300e9,  # bytes per second between two GPUs of a machine
    "start": 120.0,  # seconds in which a step imports, loads and saves its models
    "turns": 8,  # of the agent in a dialogue of at most ten
    "mixed": 1.0,  # pairs of dialogues per task
    "success": 0.25,  # share of the dialogues that are imitated
}
# The hours lie between these; 20 to 50 % of an H100's peak were measured (results/gpu).
FAST = {"arithmetic": 0.5}
SLOW = {"arithmetic": 0.2, "bandwidth": 0.3, "turns": 10, "mixed": 2.0}


@dataclass(frozen=True)
class GPU:
    """Bytes of memory, operations in bfloat16 per second and bytes per second of one GPU."""

    memory: float
    peak: float
    bandwidth: float


H100, RTX_4090 = GPU(80e9, 990e12, 3.35e12), GPU(24e9, 165e12, 1.0e12)


@dataclass(frozen=True)
class Run:
    """Who runs a recipe on what.

    Attributes:
        gpu, gpus: GPUs of the machine.
        agent, human: Their shapes; no human is one behind an API.
        human_bytes: Bytes of the human's weight.
        tasks, dialogues: Tasks, and dialogues per task.
        sampled: Share of the tasks whose turns get candidates.
        tested: Test tasks.
        epochs: Of the trainings on dialogues.
        message, reply: Tokens of the agent's message and of the human's.
        asked: Tokens that the human reads anew for a reply; two pictures of a page have 2,560.
        lora: Rank of the adapters; None trains all weights.
        pmi: Whether a second policy learns from turn pairs by PMI.
    """

    gpu: GPU
    gpus: int
    agent: ModelShape
    human: ModelShape | None
    tasks: int
    dialogues: int
    sampled: float
    tested: int
    human_bytes: float = 2.0
    epochs: int = 4
    message: int = 90
    reply: int = 60
    asked: int = 400
    lora: int | None = None
    pmi: bool = True

    @property
    def text(self) -> float:
        """Tokens of a dialogue."""
        return 400 + ASSUMED["turns"] * (self.message + self.reply)


def generating(shape: ModelShape, gpu: GPU, gpus: int, calls: float, prompt: float, reply: float, size: float = 2.0):
    """Seconds of `calls` with `prompt` new and `reply` sampled tokens, 256 at a time with contexts of 2,000 tokens."""
    reading = calls * prompt * 2 * shape.parameters / (gpus * gpu.peak * ASSUMED["arithmetic"])
    cache = 256 * 2000 * 4 * shape.layers * shape.key_heads * shape.head_size
    step = (size * shape.parameters + cache) / (gpus * gpu.bandwidth * ASSUMED["bandwidth"])
    return reading + calls * reply / 256 * step


def training(shape: ModelShape, gpu: GPU, gpus: int, steps: float, tokens: float, lora: int | None) -> float:
    """Seconds of `steps` optimiser steps of `tokens` on all GPUs, with activations computed twice.

    ZeRO-2 adds up the gradients and gathers the weights, in bfloat16, once per step. Frozen weights have no gradients.
    """
    operations = (6 if lora else 8) * shape.parameters * tokens
    moved = 0 if lora else 4 * shape.parameters * (gpus - 1) / gpus
    return steps * (operations / (gpus * gpu.peak * ASSUMED["arithmetic"]) + moved / ASSUMED["link"])


def training_gb(one: Run, gpus: int) -> float:
    """Memory of a training on dialogues, in GB, with the texts that a GPU has of eight pairs; at least 8,192 tokens."""
    texts = 2 if one.lora else 16 / gpus
    tokens = max(8192, int(texts * one.text))
    how = TrainingSetup(tokens, gpus, zero_stage=None if one.lora else 2, lora_rank=one.lora, accumulates=gpus < 8)
    return training_memory(one.agent, how).total / 1e9


def steps_of(one: Run) -> Iterator[tuple[str, str, float]]:
    """(step, memory per GPU, seconds) of a recipe."""
    start = ASSUMED["start"]
    turns = one.tasks * one.dialogues * ASSUMED["turns"]
    beside = one.gpus // 2 if one.gpus > 1 else 1
    shared = one.gpus == 1 and one.human is not None

    def played(turns: float) -> float:
        mine = generating(one.agent, one.gpu, beside, turns, one.reply, one.message)
        if one.human is None:
            return mine
        its = generating(one.human, one.gpu, beside, turns, one.asked, one.reply, one.human_bytes)
        return mine + its if shared else max(mine, its)

    weights = 2 * one.agent.parameters / 1e9
    playing = f"agent {weights:.0f} GB"
    if one.human is not None:
        each = one.human_bytes * one.human.parameters / beside / 1e9
        playing += f"; human {each:.0f} GB" + (" beside it" if shared else f" on each of {beside} others")
    yield "1, 2: dialogues, rewards", playing, played(turns) + start

    pairs, text = one.tasks * ASSUMED["mixed"] * one.epochs, one.text
    critic = training(one.agent, one.gpu, beside, pairs / 8, 8 * 2 * text, one.lora)
    imitated = one.tasks * one.dialogues * ASSUMED["success"] * one.epochs
    baselines = critic + training(one.agent, one.gpu, beside, imitated / 32, 32 * text, one.lora)
    most = training_gb(one, beside)
    if beside > 1:
        longer = max(critic + start, baselines + 2 * start)
        yield f"3: critic; beside it the baselines, {beside} GPUs each", f"{most:.0f} GB", longer
    else:
        yield "3: critic, then the baselines", f"{most:.0f} GB", critic + baselines + 3 * start

    candidates = turns * one.sampled * 16
    sampling = generating(one.agent, one.gpu, one.gpus, candidates, one.text / 2 / 16, one.message)
    yield "4: candidates", f"agent {weights:.0f} GB", sampling + start
    read = turns * one.sampled * (one.text / 2 + 16 * one.message)
    passes = 3 if one.pmi else 1  # the critic; PMI with the solution and without it
    ranking = passes * read * 2 * one.agent.parameters / (one.gpus * one.gpu.peak * ASSUMED["arithmetic"])
    yield "5, 6: ranking, turn pairs", f"{weights + RESERVE / 1e9:.0f} GB", ranking + start
    tokens = 2 * one.text / 2 + 16 * one.message  # eight pairs of two prompts, each computed once
    policy = training(one.agent, one.gpu, one.gpus, turns * one.sampled * 4 / 8, tokens, one.lora)
    policies = 2 if one.pmi else 1
    yield "7: policies", f"{training_gb(one, one.gpus):.0f} GB", policies * (policy + start)
    agents = 3 + policies
    yield f"8: test dialogues of {agents} agents", "as 1", agents * (played(one.tested * ASSUMED["turns"]) + start)


def disk_gb(one: Run) -> float:
    """Models from the hub, the trained models, and two checkpoints of each training that runs at the same time."""
    human = one.human_bytes * one.human.parameters if one.human else 0
    if one.lora:
        checkpoints = 4 * 12 * one.agent.adapter_parameters(one.lora)
    else:
        checkpoints = 2 * 2 * 14 * one.agent.parameters  # of ZeRO-2 (training.memory.checkpoint_bytes)
    models = 6 if one.pmi else 5
    return (human + models * 2 * one.agent.parameters + checkpoints) / 1e9


RUNS = {
    "8 x 80 GB | `run_backend.sh`": Run(H100, 8, LLAMA_8B, LLAMA_70B, 5000, 3, 0.1, 1000),
    "8 x 80 GB | `run_frontend.sh`": Run(
        H100, 8, LLAMA_8B, LLAMA_70B, 1000, 6, 0.1, 500, epochs=8, message=900, reply=200, asked=3000, pmi=False
    ),
    "24 GB | `run_one_gpu.sh`": Run(RTX_4090, 1, QWEN_1B, QWEN_7B, 1000, 3, 0.3, 300, human_bytes=0.73, lora=16),
    "24 GB, an API | the same with `HUMAN=Y HUMAN_SERVER=URL AGENT=meta-llama/Llama-3.2-3B-Instruct`": Run(
        RTX_4090, 1, LLAMA_3B, None, 1000, 3, 0.3, 300, lora=16
    ),
}


def table() -> str:
    """The table of the page, markdown: a row for each run, with the memory of its largest steps and all its hours."""
    lines = [
        "| machine | recipe | dialogues | training | ranking | hours | disk |",
        "| --- " * 7 + "|",
    ]
    for name, one in RUNS.items():
        dialogues, trained, _, ranked, *_ = (memory for _, memory, _ in steps_of(one))
        low, high = hours(one, FAST), hours(one, SLOW)
        times = f"{low:.0f} to {high:.0f}"
        if one.gpus > 1:
            times += f" ({one.gpus * low:.0f} to {one.gpus * high:.0f} GPU-hours)"
        lines.append(f"| {name} | {dialogues} | {trained} | {ranked} | {times} | {disk_gb(one):,.0f} GB |")
    return "\n".join(lines)


def hours(one: Run, assumed: dict[str, float]) -> float:
    """Hours of a whole recipe under other assumptions than `ASSUMED`."""
    with mock.patch.dict(ASSUMED, assumed):
        return sum(seconds for *_, seconds in steps_of(one)) / 3600


def steps() -> str:
    """Memory of a GPU and hours of each step of each run, one line each."""
    lines = []
    for name, one in RUNS.items():
        lines += [
            name,
            *(f"    {step}: {memory}; {seconds / 3600:.1f} hours" for step, memory, seconds in steps_of(one)),
        ]
    return "\n".join(lines)


def main(write: bool = False) -> None:
    """Print the table, and the figures of each step.

    Args:
        write: Put the table into docs/hardware.md instead.
    """
    if not write:
        print(table(), steps(), sep="\n\n")
        return
    write_between(BEGIN, END, table())


if __name__ == "__main__":
    run(main)
