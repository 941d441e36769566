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

from sweet_rl.models.log_probs.attention import share_prompts
from sweet_rl.models.log_probs.logps import score_texts
from sweet_rl.models.log_probs.rows import EncodedText
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
    paths = [folder / f"{name}-{n}-of-{processes}.npy" for n in range(processes)]

    if shares[process] and not paths[process].exists():
        mine = [texts[i] for i in shares[process]]
        with progress_bar(total=len(mine), desc="reference log-probs", disable=process > 0) as bar:
            model = load()
            values = score_texts(model, mine, share=switch(model), progress=bar.update)
            del model
        _release()
        partial = paths[process].with_suffix(".partial")
        with open(partial, "wb") as file:
            np.save(file, np.concatenate(values))
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, paths[process])
    wait()

    logps: list = [None] * len(texts)
    for path, share in zip(paths, shares, strict=True):
        if share:
            ends = np.cumsum([len(texts[i].targets) for i in share])
            stored = np.asarray(np.load(path, mmap_mode="r"))
            for i, values_of_text in zip(share, np.split(stored, ends[:-1]), strict=True):
                logps[i] = values_of_text
    return logps


def frozen_logps(
    texts: Sequence[EncodedText], path: str, training: Training, model: torch.nn.Module | None = None
) -> list[np.ndarray]:
    """The log-probs [n_i] of all texts under the model at `path`, computed by all processes of a training together.

    Args:
        texts: Texts of all processes.
        path: Path of the model, which every process loads whole.
        training: Training that decides about precision, device and the folder in which the log-probs are kept.
        model: That model, if it is in memory.
    """
    settings, engine, accelerator = training.settings, training.engine, training.accelerator
    content = hash_input(path) if Path(path).exists() else ""
    key = f"{path} {content} {training.dtype} bf16={settings.bf16} 4bit={settings.load_in_4bit}"

    def load() -> torch.nn.Module:
        return training.load_frozen(path) if model is None else model.to(accelerator.device).eval()

    with engine.autocast():
        return reference_logps(
            Path(training.save_path) / CHECKPOINTS,
            texts,
            key,
            load,
            accelerator.process_index,
            accelerator.num_processes,
            accelerator.wait_for_everyone,
            training.share_prompts,
        )


def _release() -> None:
    """Free the memory of a model that is no longer used."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
