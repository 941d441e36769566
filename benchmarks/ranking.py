"""Candidates scored a second: a turn's candidates in one pass, against one full sequence for each.

    python benchmarks/ranking.py

Sixteen candidates of 60 tokens after a prompt of 1,000, as the critic ranks them. The peer is the same model in
transformers with its own attention kernel, one sequence a candidate, prompt included: as released, with the
vocabulary's log-probs at every position, and, harder to beat, with logits at the candidate's tokens only. All ways take
turns `--repeats` times; of each peer the fastest of `--peer_batch` candidates at once (by its median) counts. All must
give the same log-probs. The last lines are the ratios: median and range over the repeats.
"""

from __future__ import annotations

import statistics
import tempfile
from functools import partial

import numpy as np
import torch
from random_model import SHAPES, config_of, save_random_model
from timing import in_turns, ratios, spread

from sweet_rl.models.log_probs.logps import score_texts
from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.models.weights import load_frozen, load_weights
from sweet_rl.runs.cli import run
from sweet_rl.runs.errors import UserError


@torch.inference_mode()
def one_by_one(model, texts: list[EncodedText], together: int, everywhere: bool) -> list[np.ndarray]:
    """Log-probs of each text's trained tokens, every text whole; all texts have the same lengths. `everywhere`: the
    vocabulary's log-probs of every position are computed."""
    device, found = next(model.parameters()).device, []
    for start in range(0, len(texts), together):
        part = texts[start : start + together]
        ids = torch.from_numpy(np.stack([text.ids for text in part])).long().to(device)
        kept = len(part[0].targets) + 1
        logits = model(input_ids=ids, use_cache=False, logits_to_keep=0 if everywhere else kept).logits.float()
        logps = logits.log_softmax(-1)[:, -kept:-1].gather(-1, ids[:, -kept + 1 :, None])[..., 0]
        found += list(logps.cpu().numpy())
    return found


def main(
    shape: str = "25m",
    dtype: str = "auto",
    candidates: int = 16,
    prompt: int = 1000,
    tokens: int = 60,
    peer_batch: list[int] = (1, 4, 16),
    repeats: int = 5,
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
    peers = {"as released, the vocabulary everywhere": (True, 6), "logits at the candidate only": (False, 5)}
    works = {"sweet_rl": lambda: score_texts(ours, texts, token_budget=16384)}
    for name, (everywhere, _) in peers.items():
        works |= {f"{name}, {n} at once": partial(one_by_one, plain, texts, n, everywhere) for n in peer_batch}
    times = in_turns(works, repeats)
    own = times["sweet_rl"]
    for name, found in times.items():
        gap = max(float(np.abs(a - b).max()) for a, b in zip(own.result, found.result, strict=True))
        speed = spread([candidates / seconds for seconds in found.wall])
        print(f"{name}: {speed} candidates/s, log-probs differ by {gap:.1e} at most")
    for name, (_, wanted) in peers.items():
        best = min((times[f"{name}, {n} at once"] for n in peer_batch), key=lambda found: statistics.median(found.wall))
        print(
            f"{spread(ratios(best.wall, own.wall))} times the candidates/s of one sequence a candidate, {name} "
            f"({spread(ratios(best.cpu, own.cpu))} times by processor time); wanted {wanted}"
        )


if __name__ == "__main__":
    run(main)
