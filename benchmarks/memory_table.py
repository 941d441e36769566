"""The tables of docs/hardware.md: what fits where, calculated.

python benchmarks/memory_table.py            # prints them
python benchmarks/memory_table.py --write    # puts them into docs/hardware.md
"""

from __future__ import annotations

from pathlib import Path

from sweet_rl.runs.cli import run
from sweet_rl.training.memory import LLAMA_8B, LLAMA_70B, RESERVE, ModelShape, TrainingSetup, training_memory

PAGE = Path(__file__).resolve().parents[1] / "docs" / "hardware.md"
BEGIN, END = "<!-- calculated by benchmarks/memory_table.py -->", "<!-- end of what is calculated -->"
GPUS = {"80 GB": 80e9, "141 GB": 141e9}  # H100, H200
MODELS = {"8B": LLAMA_8B, "70B": LLAMA_70B}
TOKENS = 8192
ENGINE_SHARE = 0.9
SETUPS = {
    "LoRA of rank 16, 1 GPU": TrainingSetup(TOKENS, lora_rank=16),
    "LoRA of rank 16, ZeRO-3, 4 GPUs": TrainingSetup(TOKENS, 4, zero_stage=3, lora_rank=16),
    "plain torch, 1 GPU": TrainingSetup(TOKENS),
    "ZeRO-2, 4 GPUs": TrainingSetup(TOKENS, 4, zero_stage=2),
    "ZeRO-2, 8 GPUs": TrainingSetup(TOKENS, 8, zero_stage=2),
    "ZeRO-3, 4 GPUs": TrainingSetup(TOKENS, 4, zero_stage=3),
    "ZeRO-3, 8 GPUs": TrainingSetup(TOKENS, 8, zero_stage=3),
    "ZeRO-3, 16 GPUs": TrainingSetup(TOKENS, 16, zero_stage=3),
    "ZeRO-3, 32 GPUs": TrainingSetup(TOKENS, 32, zero_stage=3),
    "ZeRO-3, 1 GPU, offload": TrainingSetup(TOKENS, 1, zero_stage=3, offload=True),
    "ZeRO-3, 8 GPUs, offload": TrainingSetup(TOKENS, 8, zero_stage=3, offload=True),
}


def training_rows() -> list[str]:
    """A row for each setup of a training, with the GB that it needs of a GPU for each model."""
    rows = []
    for name, setup in SETUPS.items():
        cells = []
        for shape in MODELS.values():
            memory = training_memory(shape, setup)
            host = f", and {setup.gpus * memory.host / 1e9:.0f} of the host" if setup.offload else ""
            cells.append(f"{memory.total / 1e9:.0f}{host}")
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return rows


def cache_bytes(shape: ModelShape) -> int:
    """Key-value cache of one token in bfloat16, all layers."""
    return 2 * shape.layers * shape.key_heads * shape.head_size * 2


def cache_tokens(shape: ModelShape, capacity: float, gpus: int = 1) -> float:
    """Tokens that the cache of an engine holds in bfloat16; negative if the weights alone do not fit.

    Args:
        shape: Shape of the model.
        capacity: Bytes of a GPU, of which the engine takes ENGINE_SHARE.
        gpus: Number of GPUs among which the engine divides weights and cache (tensor parallelism).
    """
    return (gpus * (ENGINE_SHARE * capacity - RESERVE / 2) - 2 * shape.parameters) / cache_bytes(shape)


def cache_rows() -> list[str]:
    """For 1 to 8 GPUs, the tokens that the key-value cache of an engine holds for each model and size of GPU."""
    rows = []
    for gpus in (1, 2, 4, 8):
        tokens = (cache_tokens(shape, capacity, gpus) for shape in MODELS.values() for capacity in GPUS.values())
        rows.append(f"| {gpus} | {' | '.join(f'{t / 1000:,.0f}k' if t > 0 else 'no' for t in tokens)} |")
    return rows


def tables() -> str:
    """Both tables, markdown."""
    engines = [f"{name}, {size}" for name in MODELS for size in GPUS]
    lines = [f"| training | {' | '.join(MODELS)} |", "| --- " + "| ---: " * len(MODELS) + "|", *training_rows()]
    lines += ["", f"| GPUs of an engine | {' | '.join(engines)} |", "| --- " + "| ---: " * len(engines) + "|"]
    return "\n".join(lines + cache_rows())


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
