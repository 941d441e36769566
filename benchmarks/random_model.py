"""A Llama of a given shape with random weights, and a tokenizer whose words are its tokens.

Speed depends on the shape, not on what the weights say.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from sweet_rl.models.texts.chat import ChatFormat

EOS = "</s>"
TEMPLATE = "{% for m in messages %}{{ m.content }} </s> {% endfor %}"
SHAPES = {  # hidden, layers, heads, key heads, feed-forward, vocabulary, tied
    "tiny": (64, 2, 4, 2, 96, 512, True),
    "25m": (512, 8, 8, 4, 1408, 16384, True),
    "135m": (576, 30, 9, 3, 1536, 49152, True),
    "1b": (2048, 16, 32, 8, 8192, 128256, True),
    "3b": (3072, 28, 24, 8, 8192, 128256, True),
    "8b": (4096, 32, 32, 8, 14336, 128256, False),
}


def config_of(shape: str) -> LlamaConfig:
    """The configuration of a named shape: tiny is for tests, 135m is SmolLM2's, 1b, 3b and 8b those of Llama 3."""
    hidden, layers, heads, key_heads, feed_forward, vocabulary, tied = SHAPES[shape]
    return LlamaConfig(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=key_heads,
        intermediate_size=feed_forward, vocab_size=vocabulary, tie_word_embeddings=tied,
        max_position_embeddings=32768, bos_token_id=0, eos_token_id=1, pad_token_id=2,
    )  # fmt: skip


def save_random_model(folder: str, shape: str, dtype: torch.dtype, device: str = "cpu", seed: int = 0) -> None:
    """Writes model and tokenizer to `folder`. Token i is the word `t<i>`; EOS is 1."""
    torch.manual_seed(seed)
    config = config_of(shape)
    with torch.device(device):
        model = LlamaForCausalLM._from_config(config, dtype=dtype)
    model.save_pretrained(folder)
    words = {word_of(i): i for i in range(config.vocab_size)}
    tokenizer = Tokenizer(WordLevel(words, unk_token="<pad>"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=EOS, pad_token="<pad>", bos_token="<s>", chat_template=TEMPLATE
    ).save_pretrained(folder)


def save_random_agent(folder: str, shape: str, dtype: torch.dtype, device: str = "cpu") -> None:
    """Writes a model that talks, in random words: the packaged tiny agent's chat template and tokens, filled up to the
    vocabulary of the shape."""
    save_random_model(folder, shape, dtype, device)
    tokenizer = ChatFormat.from_pretrained("mini").tokenizer
    tokenizer.add_tokens([AddedToken(f" w{i}", normalized=False) for i in range(len(tokenizer), SHAPES[shape][5])])
    tokenizer.save_pretrained(folder)
    update = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    for name in ("config.json", "generation_config.json"):
        path = Path(folder, name)
        path.write_text(json.dumps(json.loads(path.read_text()) | update | {"pad_token_id": tokenizer.pad_token_id}))


def word_of(token: int) -> str:
    """The word that is tokenised as `token`."""
    return {0: "<s>", 1: EOS, 2: "<pad>"}.get(token, f"t{token}")
