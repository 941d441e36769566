"""Candidates scored a second: a turn's candidates in one pass, against one full sequence for each.

    python benchmarks/ranking.py

Sixteen candidates of 60 tokens after a prompt of 1,000, as the critic ranks them. The peer is the released way,
with what makes it fast here: the same model in transformers, one sequence a candidate (prompt included), its own
attention kernel, logits only at the candidate's tokens; the fastest of `--peer_batch` candidates at once counts. Both
must give the same log-probs. The last line is the ratio.
"""

from __future__ import annotations

import tempfile
import time

import numpy as np
import torch
from random_model import SHAPES, config_of, save_random_model

from sweet_rl.cli import run
from sweet_rl.errors import UserError
from sweet_rl.training.logps import score_texts
from sweet_rl.training.rows import EncodedText
from sweet_rl.training.weights import load_frozen, load_weights


@torch.inference_mode()
def one_by_one(model, texts: list[EncodedText], together: int) -> list[np.ndarray]:
    """Log-probs of each text's trained tokens, every text whole; all texts have the same lengths."""
    device, found = next(model.parameters()).device, []
    for start in range(0, len(texts), together):
        part = texts[start : start + together]
        ids = torch.from_numpy(np.stack([text.ids for text in part])).to(device)
        kept = len(part[0].targets) + 1
        logits = model(input_ids=ids, use_cache=False, logits_to_keep=kept).logits[:, :-1].float()
        logps = logits.log_softmax(-1).gather(-1, ids[:, -kept + 1 :, None])[..., 0]
        found += list(logps.cpu().numpy())
    return found


def timed(work, repeats: int) -> tuple[list[np.ndarray], float, float]:
    """What `work` gives, and its shortest wall-clock and processor times; once before, untimed."""
    found, walls, cpus = work(), [], []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return found, min(walls), min(cpus)


def main(
    shape: str = "25m",
    dtype: str = "auto",
    candidates: int = 16,
    prompt: int = 1000,
    tokens: int = 60,
    peer_batch: list[int] = (1, 4, 16),
    repeats: int = 3,
    threads: int = 2,
    seed: int = 0,
) -> None:
    """Measure both ways and print the ratio.

    Args:
        shape: of the random Llama: 25m, 135m, 1b, 3b or 8b
        dtype: float32, bfloat16, or auto (bfloat16 on a GPU)
        peer_batch: sequences that the peer runs at once; each is tried
    """
    if shape not in SHAPES:
        raise UserError(f"--shape is {shape!r}; it must be one of {', '.join(SHAPES)}.")
    torch.set_num_threads(threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kind = getattr(torch, ("bfloat16" if device == "cuda" else "float32") if dtype == "auto" else dtype)
    draw = np.random.default_rng(seed)
    vocabulary = config_of(shape).vocab_size
    head = draw.integers(3, vocabulary, prompt)
    mask = [False] * prompt + [True] * tokens
    texts = [
        EncodedText.build(np.concatenate([head, draw.integers(3, vocabulary, tokens)]), mask, "candidate")
        for _ in range(candidates)
    ]
    with tempfile.TemporaryDirectory() as folder:
        save_random_model(folder, shape, kind, device)
        ours, plain = load_frozen(folder, kind), load_weights(folder, kind).to(device).eval()
    found, wall, cpu = timed(lambda: score_texts(ours, texts, token_budget=16384), repeats)
    print(f"sweet_rl: {candidates / wall:.2f} candidates/s ({candidates / cpu:.2f} a processor second)", flush=True)
    best = None
    for together in peer_batch:
        expected, *times = timed(lambda together=together: one_by_one(plain, texts, together), repeats)
        print(f"one sequence a candidate, {together} at once: {candidates / times[0]:.2f} candidates/s", flush=True)
        gap = max(float(np.abs(a - b).max()) for a, b in zip(found, expected, strict=True))
        best = times if best is None else min(best, times)
    print(f"largest difference between log-probs: {gap:.1e}")
    speed, by_cpu = best[0] / wall, best[1] / cpu
    print(f"{speed:.2f} times the candidates/s of the fastest ({by_cpu:.2f} by processor time); wanted 6")


if __name__ == "__main__":
    run(main)
