"""Reference log-probs: computed once before training, kept on disk beside the model that is trained."""

from __future__ import annotations

import gc
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from sweet_rl.models.log_probs.logps import batch_count, score_texts
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.models.log_probs.shared_prefix import share_prompts
from sweet_rl.runs.manifest import hash_input
from sweet_rl.runs.progress import progress_bar
from sweet_rl.training.checkpoints import CHECKPOINTS

if TYPE_CHECKING:
    from sweet_rl.training.run import Training


def reference_logps(
    folder: Path,
    texts: Sequence[EncodedText],
    model_key: str,
    load: Callable[[], torch.nn.Module],
    process: int = 0,
    processes: int = 1,
    wait: Callable[[], None] = lambda: None,
    token_budget: int = 8192,
    divided: bool = False,
    switch: Callable[[torch.nn.Module], bool] = share_prompts,
) -> list[np.ndarray]:
    """Log-probs of each text's trained tokens under the frozen model.

    Each process computes its share and maps those of the others into its memory. A share on disk is used only if it was
    made from the same texts and `model_key`, so a killed training that is started again does not compute it twice.

    Args:
        folder: Folder of the shares, the same for all processes.
        texts: Texts of all processes.
        model_key: Identity of the model's weights and precision.
        load: Function that returns the model; called only if something must be computed.
        process: Number of this process, from 0.
        processes: Number of processes.
        wait: Function that returns when all processes have called it.
        token_budget: Number of tokens per batch.
        divided: Whether the processes hold one model together (ZeRO-3, FSDP2), so that they must compute in step: all
            of them or none, and equally many batches.
        switch: Function that switches the model to shared prompts and returns whether it could.

    Returns:
        float32 [n_i] for each text, in the order of `texts`.
    """
    order = sorted(range(len(texts)), key=lambda i: texts[i].prompt)
    shares = [share.tolist() for share in np.array_split(np.asarray(order), processes)]
    digest = hashlib.sha256(model_key.encode())
    for text in texts:
        digest.update(text.key)
    folder.mkdir(parents=True, exist_ok=True)
    name = f"reference_logps-{digest.hexdigest()[:32]}"
    paths = [folder / f"{name}-{n}-of-{processes}.npy" for n, share in enumerate(shares) if share]

    counts = [sum(len(texts[i].targets) for i in share) for share in shares]
    needed = range(len(paths)) if divided else [n for n in range(len(paths)) if n == process]
    if not all(_holds(paths[n], counts[n]) for n in needed):
        mine = [texts[i] for i in shares[process] or order[:1]]  # a process without a share computes along
        count = max(batch_count([texts[i] for i in share], token_budget) for share in shares if share) if divided else 0
        with progress_bar(total=len(mine), desc="reference log-probs", disable=process > 0) as bar:
            model = load()
            values = score_texts(model, mine, token_budget, switch(model), progress=bar.update, at_least=count)
            del model
        _release()
        if shares[process]:
            partial = paths[process].with_suffix(".partial")
            with open(partial, "wb") as file:
                stored = np.concatenate(values)
                np.save(file, stored)
                file.write(_digest(stored))  # after the array, where numpy does not look
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, paths[process])
    wait()

    found: list = [None] * len(texts)
    for path, share in zip(paths, shares, strict=False):  # shares without texts, the last ones, have no file
        ends = np.cumsum([len(texts[i].targets) for i in share])
        stored = np.asarray(np.load(path, mmap_mode="r"))
        for i, own in zip(share, np.split(stored, ends[:-1]), strict=True):
            found[i] = own
    return found


def _holds(path: Path, count: int) -> bool:
    """Whether a share is on disk, with its number of log-probs and undamaged."""
    try:
        with open(path, "rb") as file:
            stored = np.load(file)
            return len(stored) == count and file.read() == _digest(stored)
    except (OSError, ValueError, TypeError, EOFError):
        return False


def _digest(values: np.ndarray) -> bytes:
    return hashlib.sha256(values.tobytes()).digest()


def frozen_logps(
    texts: Sequence[EncodedText],
    path: str,
    training: Training,
    load: Callable[[], torch.nn.Module] | None = None,
) -> list[np.ndarray]:
    """The log-probs [n_i] of all texts under the model at `path`, computed by all processes of a training together.

    Args:
        texts: Texts of all processes.
        path: Path of the model.
        training: Training that decides about precision, device and the folder in which the log-probs are kept.
        load: Function that returns the frozen model. By default it is loaded whole in every process, or divided among
            them if the trained model is (ZeRO-3, FSDP2).
    """
    settings, engine, accelerator = training.settings, training.engine, training.accelerator
    content = hash_input(path) if Path(path).exists() else ""
    key = f"{path} {content} {training.dtype} bf16={settings.bf16} 4bit={settings.load_in_4bit}"
    with engine.autocast():
        return reference_logps(
            Path(training.save_path) / CHECKPOINTS,
            texts,
            key,
            load or (lambda: engine.load_frozen(lambda: training.load_weights(path))),
            accelerator.process_index,
            accelerator.num_processes,
            accelerator.wait_for_everyone,
            divided=engine.divided,
            switch=training.share_prompts,
        )


def _release() -> None:
    """Free the memory of a model that is no longer used; a DeepSpeed engine refers to itself."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
