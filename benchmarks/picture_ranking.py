"""Candidates behind a picture valued a second: a turn's prompt and picture once for all, against once for each.

    python benchmarks/picture_ranking.py

Sixteen candidates of 300 tokens, after a picture of 960 x 1,024 pixels (1,258 tokens) and 700 tokens of dialogue, by a
random Qwen2-VL with a value head, as the critic of Frontend Design ranks them. The peer is the same model with
transformers' own attention, one whole text a candidate. Both take turns `--repeats` times; the values must be equal.
The last line is the ratio: median and range over the repeats.
"""

from __future__ import annotations

import io

import numpy as np
import torch
from PIL import Image
from timing import in_turns, ratios, spread
from transformers import AutoConfig, AutoModelForImageTextToText
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.models.log_probs.value_head import attach_value_head
from sweet_rl.models.log_probs.vision import VisionFormat, picture_values
from sweet_rl.models.weights import freeze
from sweet_rl.runs.cli import run

WORDS, PICTURE = 16384, 16383  # size of the vocabulary; the placeholder of a piece of a picture


def random_model(hidden: int, layers: int, seed: int) -> torch.nn.Module:
    """A Qwen2-VL with random weights and a value head."""
    heads = hidden // 64
    text = dict(
        hidden_size=hidden, intermediate_size=3 * hidden, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=max(1, heads // 4), vocab_size=WORDS, max_position_embeddings=32768,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6, "mrope_section": [8, 12, 12]},
    )  # fmt: skip
    vision = dict(depth=2, embed_dim=128, hidden_size=hidden, num_heads=2)
    ids = dict(zip(("vision_start_token_id", "vision_end_token_id", "video_token_id"), range(3), strict=True))
    config = AutoConfig.for_model("qwen2_vl", text_config=text, vision_config=vision, image_token_id=PICTURE, **ids)
    torch.manual_seed(seed)
    return freeze(attach_value_head(AutoModelForImageTextToText.from_config(config, dtype=torch.float32)))


def main(
    hidden: int = 256,
    layers: int = 4,
    candidates: int = 16,
    prompt: int = 700,
    tokens: int = 300,
    repeats: int = 5,
    threads: int = 2,
    seed: int = 0,
) -> None:
    """Measure both ways and print the ratio.

    Args:
        hidden: Width of the random model.
        layers: Number of its layers.
        candidates: Number of candidates of the turn.
        prompt: Tokens of the dialogue before it.
        tokens: Tokens of each candidate.
        repeats: Number of measurements of each way.
        threads: Threads of torch.
        seed: Seed of weights and texts.
    """
    torch.set_num_threads(threads)
    draw = np.random.default_rng(seed)
    file = io.BytesIO()
    Image.fromarray(draw.integers(0, 255, (1024, 960, 3), np.uint8)).save(file, "PNG")
    form = VisionFormat(None, Qwen2VLImageProcessorPil(max_pixels=1003520), PICTURE, 0, 1)
    pieces = form.processor.get_number_of_image_patches(1024, 960, {}) // form.processor.merge_size**2
    head = np.concatenate([np.full(pieces, PICTURE), draw.integers(3, WORDS - 1, prompt)])
    mask = [False] * len(head) + [True] * tokens
    texts = [
        EncodedText.build(np.concatenate([head, draw.integers(3, WORDS - 1, tokens)]), mask, "candidate")
        for _ in range(candidates)
    ]
    shared, plain = (random_model(hidden, layers, seed) for _ in range(2))
    plain.config.text_config.attention_dropout = (
        1e-9  # of which share_prompts says that it cannot share; frozen, it is 0
    )
    works = {
        name: lambda model=model: picture_values(model, form, texts, [file.getvalue()] * candidates, 16384)
        for name, model in (("once", shared), ("once for each", plain))
    }
    found = in_turns(works, repeats)
    gap = np.abs(np.subtract(found["once"].result, found["once for each"].result)).max()
    assert gap < 1e-4, gap
    for name, timed in found.items():
        print(f"prompt and picture {name}: {spread(timed.wall)} s a turn, {candidates * len(texts[0])} tokens whole")
    print(f"ratio: {spread(ratios(found['once for each'].wall, found['once'].wall))}; values differ by {gap:.1e}")


if __name__ == "__main__":
    run(main)
