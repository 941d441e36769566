"""Reference log-probs: computed once before training, kept on disk beside the model that is trained."""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from sweet_rl.models.log_probs.logps import score_texts
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.runs.manifest import hash_input
from sweet_rl.runs.progress import progress_bar
from sweet_rl.training.checkpoints import CHECKPOINTS

if TYPE_CHECKING:
    from sweet_rl.training.run import Training


def reference_logps(
    texts: Sequence[EncodedText], path: str, training: Training, model: torch.nn.Module | None = None
) -> list[np.ndarray]:
    """Log-probs of each text's trained tokens, float32 [n_i], under the model at `path`, by all processes together.

    Each process computes a part and maps the other parts into its memory. A part on disk is used only if it was made
    from the same texts, weights and precision, so a killed training does not compute it twice. `model` is the model at
    `path`, if it is in memory.
    """
    accelerator, settings = training.accelerator, training.settings
    process, processes = accelerator.process_index, accelerator.num_processes
    order = sorted(range(len(texts)), key=lambda i: texts[i].prompt)
    parts = [part.tolist() for part in np.array_split(np.asarray(order), processes)]
    content = hash_input(path) if Path(path).exists() else ""
    precision = f"{training.dtype} bf16={settings.bf16} 4bit={settings.load_in_4bit}"
    digest = hashlib.sha256(f"{path} {content} {precision}".encode())
    for text in texts:
        digest.update(text.key)
    folder = Path(training.save_path) / CHECKPOINTS
    folder.mkdir(parents=True, exist_ok=True)
    name = f"reference_logps-{digest.hexdigest()[:32]}"
    paths = [folder / f"{name}-{n}-of-{processes}.npy" for n in range(processes)]

    if parts[process] and not paths[process].exists():
        model = training.load_frozen(path) if model is None else model.to(accelerator.device).eval()
        prompts_shared = training.share_prompts(model)
        with (
            training.engine.autocast(),
            progress_bar(total=len(parts[process]), desc="reference log-probs", disable=process > 0) as bar,
        ):
            values = score_texts(model, [texts[i] for i in parts[process]], share=prompts_shared, progress=bar.update)
        partial = paths[process].with_suffix(".partial")
        with open(partial, "wb") as file:
            np.save(file, np.concatenate(values))
        partial.replace(paths[process])
        del model
        gc.collect()
        torch.cuda.empty_cache()
    accelerator.wait_for_everyone()

    logps: list = [None] * len(texts)
    for path_of_part, part in zip(paths, parts, strict=True):
        if part:
            ends = np.cumsum([len(texts[i].targets) for i in part])
            stored = np.asarray(np.load(path_of_part, mmap_mode="r"))
            for i, values_of_text in zip(part, np.split(stored, ends[:-1]), strict=True):
                logps[i] = values_of_text
    return logps
