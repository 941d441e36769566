"""Random float64 models of a few thousand parameters, one a family."""

from __future__ import annotations

import functools

import torch
from tokenizers import AddedToken, Tokenizer, models
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

VOCABULARY = 61
SHAPE = dict(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48,
    vocab_size=VOCABULARY, max_position_embeddings=512, bos_token_id=1, eos_token_id=2, pad_token_id=0,
)  # fmt: skip


def tiny_model(family: str, dtype: torch.dtype = torch.float64, seed: int = 0, **changes) -> torch.nn.Module:
    """A model with random weights, large enough to make every mistake of masks and positions show.

    In float64 its RMS norms are computed in float64 too: transformers rounds them to float32, which would
    hide differences below 1e-6 in noise.
    """
    torch.manual_seed(seed)
    attention = changes.pop("attn_implementation", "sdpa")
    config = AutoConfig.for_model(family, **{**SHAPE, "initializer_range": 0.3, **changes})
    model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=attention).eval()
    if dtype == torch.float64:
        for module in model.modules():
            if type(module).__name__ in ROUNDING_NORMS:
                module.forward = functools.partial(rms_norm, module)
    return model


def moved(model: torch.nn.Module) -> torch.nn.Module:
    """The model with all weights a little off, always in the same way: as after some training."""
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.05 * torch.randn(weight.shape, generator=draw, dtype=weight.dtype)
    return model


ROUNDING_NORMS = (
    "GemmaRMSNorm", "Gemma3RMSNorm", "GraniteRMSNorm", "LlamaRMSNorm", "MistralRMSNorm", "Olmo2RMSNorm",
    "Phi3RMSNorm", "Qwen2RMSNorm", "Qwen3RMSNorm",
)  # fmt: skip


def rms_norm(module: torch.nn.Module, hidden: torch.Tensor) -> torch.Tensor:
    gemma = type(module).__name__.startswith("Gemma")
    weight, epsilon = (1 + module.weight, module.eps) if gemma else (module.weight, module.variance_epsilon)
    return weight * hidden * (hidden.pow(2).mean(-1, keepdim=True) + epsilon).rsqrt()


BOS, EOS = "<|bos|>", "<|end|>"
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def save_tiny_chat_model(path, seed: int = 0, family: str = "llama", **changes) -> str:
    """A float32 model directory with a byte tokenizer and a chat template, as train scripts take it."""
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(sorted(ByteLevel.alphabet()))}, merges=[]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevelDecoder()
    special = [BOS, EOS, "<|pad|>", "<|user|>", "<|assistant|>", "<|system|>"]
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in special])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=BOS, eos_token=EOS, pad_token="<|pad|>", chat_template=TEMPLATE
    )
    fast.save_pretrained(str(path))
    settings = {
        "vocab_size": len(fast),
        "initializer_range": 0.05,
        "max_position_embeddings": 2048,
        **changes,
    }
    tiny_model(family, torch.float32, seed, **settings).save_pretrained(str(path))
    return str(path)
