"""A random Qwen2-VL (or Qwen2.5-VL) of a hundred thousand parameters with its image processor and a byte tokenizer."""

from __future__ import annotations

import torch
from tokenizers import AddedToken, Tokenizer, models
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoConfig, AutoImageProcessor, AutoModelForImageTextToText, PreTrainedTokenizerFast
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from tests.support.chat_families import CHATML

VISION = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *VISION]
PATCH = 14 * 2  # pixels of one token's side


def save_tiny_vision_model(
    path, seed: int = 0, max_pixels: int = 12 * PATCH * PATCH, family: str = "qwen2_vl", context: int = 4096
) -> str:
    """A float32 model directory as a hub's: weights, configuration, tokenizer with a chat template, image processor."""
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(sorted(ByteLevel.alphabet()))}, merges=[]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevelDecoder()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=CHATML
    )
    fast.save_pretrained(str(path))
    ids = {name: fast.convert_tokens_to_ids(name) for name in SPECIAL}
    text = dict(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=len(fast), max_position_embeddings=context, initializer_range=0.1,
        bos_token_id=None, eos_token_id=ids["<|im_end|>"], pad_token_id=ids["<|endoftext|>"],
        rope_parameters={"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]},
    )  # fmt: skip
    vision = dict(depth=2, hidden_size=32, num_heads=2, patch_size=14, initializer_range=0.1)
    if family == "qwen2_vl":
        vision |= dict(embed_dim=32)
    else:
        vision |= dict(out_hidden_size=32, intermediate_size=48, window_size=56, fullatt_block_indexes=[1])
    config = AutoConfig.for_model(
        family, text_config=text, vision_config=vision, image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"], vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"], initializer_range=0.1,
    )  # fmt: skip
    torch.manual_seed(seed)
    AutoModelForImageTextToText.from_config(config, dtype=torch.float32).save_pretrained(str(path))
    Qwen2VLImageProcessorPil(min_pixels=PATCH * PATCH, max_pixels=max_pixels).save_pretrained(str(path))
    AutoImageProcessor.from_pretrained(str(path), backend="pil")
    return str(path)
