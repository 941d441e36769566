"""Reference log-probs: computed once before training, kept on disk beside the model that is trained."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from sweet_rl.progress import progress_bar
from sweet_rl.scoring.logps import score_texts
from sweet_rl.scoring.rows import EncodedText


def reference_logps(
    folder: Path,
    texts: Sequence[EncodedText],
    model_key: str,
    load: Callable[[], torch.nn.Module],
    process: int = 0,
    processes: int = 1,
    wait: Callable[[], None] = lambda: None,
    token_budget: int = 8192,
) -> list[np.ndarray]:
    """Log-probs of each text's trained tokens under the frozen model.

    Each process computes its share and reads the others'. A share on disk is used only if it was made from the same
    texts and `model_key`, so a killed training that is started again does not compute it twice.

    Args:
        folder: of the shares.
        texts: of all processes.
        model_key: identifies the model's weights and precision.
        load: returns the model; called only if something must be computed.
        process, processes: number of this process, from 0, and how many there are.
        wait: returns when all processes have called it.
        token_budget: tokens per batch.

    Returns:
        float32 [n_i] for each text, in the order of `texts`.
    """
    order = sorted(range(len(texts)), key=lambda i: texts[i].prompt)
    shares = [share.tolist() for share in np.array_split(np.asarray(order), processes)]
    digest = hashlib.sha256(model_key.encode())
    for text in texts:
        digest.update(text.key)
    key = digest.hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"reference_logps-{n}-of-{processes}.npz" for n in range(processes)]

    if _read(paths[process], key) is None and shares[process]:
        mine = [texts[i] for i in shares[process]]
        with progress_bar(total=len(mine), desc="reference log-probs", disable=process > 0) as bar:
            values = score_texts(load(), mine, token_budget, progress=bar.update)
        partial = paths[process].with_suffix(".partial")
        with open(partial, "wb") as file:
            np.savez(file, key=np.asarray(key), logps=np.concatenate(values))
        os.replace(partial, paths[process])
    wait()

    found: list = [None] * len(texts)
    for path, share in zip(paths, shares, strict=True):
        if not share:
            continue
        ends = np.cumsum([len(texts[i].targets) for i in share])
        for i, values in zip(share, np.split(_read(path, key), ends[:-1]), strict=True):
            found[i] = values
    return found


def _read(path: Path, key: str) -> np.ndarray | None:
    """The log-probs of a share, None if it was not made for `key`."""
    if not path.exists():
        return None
    with np.load(path) as stored:
        return stored["logps"] if str(stored["key"]) == key else None
