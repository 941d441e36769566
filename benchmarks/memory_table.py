"""The table of docs/hardware.md: what fits where, calculated.

python benchmarks/memory_table.py            # prints it
python benchmarks/memory_table.py --write    # puts it into docs/hardware.md
"""

from __future__ import annotations

from pathlib import Path

from sweet_rl.cli import run
from sweet_rl.training.memory import (
    LLAMA_8B,
    LLAMA_70B,
    RESERVE,
    ModelShape,
    TrainingSetup,
    cache_tokens,
    training_memory,
)

PAGE = Path(__file__).resolve().parents[1] / "docs" / "hardware.md"
BEGIN, END = "<!-- calculated by benchmarks/memory_table.py -->", "<!-- end of what is calculated -->"
GPUS = {"80 GB": 80e9, "141 GB": 141e9}  # H100, H200
MODELS = {"8B": LLAMA_8B, "70B": LLAMA_70B}
TOKENS = 8192
SETUPS = {
    "LoRA of rank 16": TrainingSetup(TOKENS, lora_rank=16),
    "LoRA of rank 16, ZeRO-3, 4 GPUs": TrainingSetup(TOKENS, 4, zero_stage=3, lora_rank=16),
    "all weights, plain torch": TrainingSetup(TOKENS),
    "all weights, ZeRO-2, 4 GPUs": TrainingSetup(TOKENS, 4, zero_stage=2),
    "all weights, ZeRO-2, 8 GPUs": TrainingSetup(TOKENS, 8, zero_stage=2),
    "all weights, ZeRO-3, 2 GPUs": TrainingSetup(TOKENS, 2, zero_stage=3),
    "all weights, ZeRO-3, 4 GPUs": TrainingSetup(TOKENS, 4, zero_stage=3),
    "all weights, ZeRO-3, 8 GPUs": TrainingSetup(TOKENS, 8, zero_stage=3),
    "all weights, ZeRO-3, 16 GPUs": TrainingSetup(TOKENS, 16, zero_stage=3),
    "all weights, ZeRO-3, 32 GPUs": TrainingSetup(TOKENS, 32, zero_stage=3),
    "all weights, ZeRO-3, 1 GPU, offload": TrainingSetup(TOKENS, 1, zero_stage=3, offload=True),
    "all weights, ZeRO-3, 8 GPUs, offload": TrainingSetup(TOKENS, 8, zero_stage=3, offload=True),
}


def training_rows(name: str, shape: ModelShape) -> list[str]:
    """A row of figures for each setup of a training."""
    rows = []
    for setup_name, setup in SETUPS.items():
        memory = training_memory(shape, setup)
        parts = (memory.weights, memory.gradients, memory.optimizer, memory.activations, memory.total)
        figures = " | ".join(f"{part / 1e9:.1f}" for part in parts)
        host = f"{setup.gpus * memory.host / 1e9:.0f}" if setup.offload else ""
        fits = " | ".join("yes" if memory.total <= capacity else "no" for capacity in GPUS.values())
        rows.append(f"| {name}, {setup_name} | {figures} | {host} | {fits} |")
    return rows


def scoring_rows(name: str, shape: ModelShape) -> list[str]:
    """For 1 to 8 GPUs, whether a critic and its reference can rank, and the tokens that an engine's cache holds."""
    rows = []
    for gpus in (1, 2, 4, 8):
        ranks = (4 * shape.parameters / gpus + RESERVE <= capacity for capacity in GPUS.values())
        tokens = (cache_tokens(shape, capacity, gpus) for capacity in GPUS.values())
        cells = ["yes" if fits else "no" for fits in ranks] + [f"{t / 1000:,.0f}k" if t > 0 else "no" for t in tokens]
        rows.append(f"| {name} | {gpus} | {' | '.join(cells)} |")
    return rows


def tables() -> str:
    """Both tables, markdown."""
    sizes = " | ".join(GPUS)
    head = f"| | weights | gradients | optimiser | activations | in all | host | {sizes} |"
    lines = [head, "|---" * (7 + len(GPUS)) + "|"]
    for name, shape in MODELS.items():
        lines += training_rows(name, shape)
    cached = " | ".join(f"cache, {size}" for size in GPUS)
    lines += ["", f"| | GPUs | {' | '.join(f'ranks, {size}' for size in GPUS)} | {cached} |"]
    lines += ["|---" * (2 + 2 * len(GPUS)) + "|"]
    for name, shape in MODELS.items():
        lines += scoring_rows(name, shape)
    return "\n".join(lines)


def write_between(begin: str, end: str, text: str) -> None:
    """Put a text between two marks of the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    after = rest.partition(end)[2]
    PAGE.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def main(write: bool = False) -> None:
    """Print the tables.

    Args:
        write: put them into docs/hardware.md instead
    """
    if not write:
        print(tables())
        return
    write_between(BEGIN, END, tables())


if __name__ == "__main__":
    run(main)
