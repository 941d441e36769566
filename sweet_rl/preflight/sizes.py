"""Calculated memory of each step against the free memory of the GPUs; calculated checkpoints against the free disk."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sweet_rl.model_loading import gpus_for
from sweet_rl.models.vllm_local import MOST_OF_A_GPU
from sweet_rl.preflight.finding import Finding, failed, ok
from sweet_rl.preflight.gpus import Gpus
from sweet_rl.preflight.models import Model
from sweet_rl.training.memory import (
    RESERVE,
    TrainingSetup,
    cache_tokens,
    checkpoint_bytes,
    training_memory,
)
from sweet_rl.training.settings import DataSettings, TrainingSettings

TOKENS = 8192  # of a text, if --max_len is not given
DIALOGUE = 16384  # tokens for which an engine must have room


@dataclass(frozen=True)
class PlannedTraining:
    """One training of the run.

    Attributes:
        name: Name of its config file.
        model: Model to start from.
        settings: Settings of the training.
        data: How records become examples.
    """

    name: str
    model: Model
    settings: TrainingSettings
    data: DataSettings

    def setup(self, processes: int) -> TrainingSetup:
        """What decides its memory: one pair of the longest texts at a time. Raises UserError for a batch that cannot be
        divided among the processes."""
        from sweet_rl.training.arguments import divided_batch

        how = self.settings
        _, accumulated = divided_batch(how, processes)
        return TrainingSetup(
            2 * (self.data.max_len or TOKENS), processes, how.bf16, how.zero_stage, how.lora_rank, how.adam_offload,
            accumulated > 1, how.gradient_checkpointing,
        )  # fmt: skip


def check_training(planned: PlannedTraining, gpus: Gpus, processes: int) -> Finding:
    """Memory of a training on each of its GPUs."""
    setup = planned.setup(processes)
    if planned.settings.load_in_4bit or planned.settings.optim != "adamw":
        return ok(f"memory: {planned.name} keeps numbers in 4 or 8 bits, for which nothing is calculated")
    need = training_memory(planned.model.shape, setup)
    parts = (need.weights, need.gradients, need.optimizer, need.activations)
    figures = "weights {:.1f}, gradients {:.1f}, optimiser {:.1f}, activations {:.1f}".format(*(p / 1e9 for p in parts))
    text = f"{planned.name} ({figures} for {setup.tokens:,} tokens)"
    remedy = (
        "more GPUs, --zero_stage 3, --adam_offload, --lora_rank 16, --gradient_checkpointing or a smaller --max_len"
    )
    return _compared(text, need.total, gpus, remedy)


def check_engine(what: str, model: Model, gpus: Gpus, with_vllm: bool, share: float = MOST_OF_A_GPU) -> Finding:
    """Memory of a model that writes.

    Args:
        what: Step and model, for the line.
        model: The model.
        gpus: GPUs that it may take.
        with_vllm: Whether it runs in vLLM, which divides it among several GPUs.
        share: Share of each GPU's memory that it may take.
    """
    weights = 2 * model.shape.parameters
    each = gpus_for(weights, gpus.total) if with_vllm else 1
    tokens = cache_tokens(model.shape, min(gpus.free), each, share)
    text = f"{what}, {model.name} on {each} GPU(s): weights {weights / each / 1e9:.1f} GB of {_free(gpus)} GB free each"
    if tokens < DIALOGUE:
        return failed(
            f"memory: {text}, room for {max(0, tokens):,.0f} tokens of dialogues: {_remedy(gpus, 'more GPUs')}"
        )
    return ok(f"memory: {text}, room for {tokens:,.0f} tokens of dialogues")


def check_ranking(models: Sequence[Model], gpus: Gpus) -> Finding:
    """Memory of a critic and its reference, one beside the other."""
    weights = 2 * sum(model.shape.parameters for model in models)
    each = gpus_for(weights, gpus.total)
    return _compared(f"ranking on {each} GPU(s)", weights / each + RESERVE, gpus, "more GPUs")


def _compared(text: str, need: float, gpus: Gpus, remedy: str) -> Finding:
    text = f"memory: {text}: {need / 1e9:.1f} GB a GPU, calculated, of {_free(gpus)} GB free"
    return ok(text) if need <= min(gpus.free) else failed(f"{text}: {_remedy(gpus, remedy, need)}")


def _free(gpus: Gpus) -> str:
    return f"{min(gpus.free) / 1e9:.1f}"


def _remedy(gpus: Gpus, others: str, need: float = 0) -> str:
    """What to do: end other processes if they hold what is missing, else `others`."""
    taken = max(total - free for total, free in zip(gpus.total, gpus.free, strict=True))
    if taken > RESERVE / 2 and need <= min(gpus.total):
        return f"other processes hold {taken / 1e9:.1f} GB of a GPU: end them (nvidia-smi names them)"
    return others


def check_disk(
    output_dir: str, trainings: Sequence[PlannedTraining], models: Sequence[Model], processes: int, at_once: int = 1
) -> Iterator[Finding]:
    """Room for the checkpoints of the trainings that run, for the trained models and for downloads.

    Args:
        output_dir: Folder of the run, in which every training has a folder.
        trainings: Trainings of the run.
        models: All models.
        processes: Processes of the launcher.
        at_once: Number of trainings that run at the same time; room is needed for the largest ones.
    """
    from huggingface_hub.constants import HF_HUB_CACHE

    kept = []
    for planned in trainings:
        one = checkpoint_bytes(planned.model.shape, planned.setup(processes))
        count = 3 if planned.settings.keep == "best" else 2
        kept.append((count * one, f"{count} checkpoints of {planned.name}, {_size(one)} each"))
    largest = sorted(kept, reverse=True)[:at_once]
    checkpoints, text = sum(size for size, _ in largest), ", ".join(text for _, text in largest)
    saved = sum(one.model.shape.parameters * (2 if one.settings.bf16 else 4) for one in trainings)
    downloads = sum(model.download for model in models)
    needs = [(Path(output_dir), checkpoints + saved, f"{text}, and {_size(saved)} of trained models")]
    needs.append((Path(HF_HUB_CACHE), downloads, f"{_size(downloads)} of models to download"))
    disks: dict[int, list[tuple[Path, int, str]]] = defaultdict(list)
    for folder, need, what in needs:
        if need:
            disks[_existing(folder).stat().st_dev].append((folder, need, what))
    for parts in disks.values():
        need = sum(part[1] for part in parts)
        free = shutil.disk_usage(_existing(parts[0][0])).free + _held(Path(output_dir), parts)
        found = f"disk: {_size(need)} for {'; '.join(f'{what} ({folder})' for folder, _, what in parts)}"
        if free >= need:
            yield ok(f"{found}; {_size(free)} are free or hold parts of them already")
        else:
            yield failed(
                f"{found}; only {_size(free)} are free: make room, take a folder on another disk, or train an adapter "
                "(--lora_rank 16), whose checkpoints are small"
            )


def _held(output_dir: Path, parts: Sequence[tuple[Path, int, str]]) -> int:
    """Bytes of checkpoints and models that an earlier start of the run has written already."""
    if all(folder != output_dir for folder, _, _ in parts):
        return 0
    files = [path for pattern in ("*.safetensors", "*.pt") for path in output_dir.rglob(pattern)]
    return sum(path.stat().st_size for path in files)


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next(path for path in (folder.resolve(), *folder.resolve().parents) if path.exists())


def _size(count: int | float) -> str:
    """Bytes in words."""
    return f"{count / 1e9:,.1f} GB" if count < 1e11 else f"{count / 1e9:,.0f} GB"
