"""Small tokenizers that split text as those of published model families do, with templates that behave like theirs."""

import re
from functools import cache

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from tests.support.chat_families import CHATML, GEMMA, LLAMA2, MISTRAL

WORDS = "Which day do you mean? I can say: fee, days\n\n\n    x = 1\n\n    y = 2. Monday, or 2 others? Either. I see\n"
ZEPHYR = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>\n' + m['content'] + eos_token + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)
PHI3 = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>\n' + m['content'] + '<|end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"
)
PHI4 = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '<|im_sep|>' + m['content'] + '<|im_end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}"
)
VICUNA = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}{{ 'USER: ' + m['content'] + ' ' }}{% else %}"
    "{{ 'ASSISTANT: ' + m['content'] + eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)
# A reply after the last question has a reasoning block, an empty one if there is no reasoning; earlier ones have none.
QWEN3 = (
    "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}"
    "{% endif %}{% endfor %}{% for m in messages %}{% set c = m.content %}{% set r = '' %}{% if '</think>' in c %}"
    "{% set r = c.split('</think>')[0].split('<think>')[-1].strip('\n') %}"
    "{% set c = c.split('</think>')[-1].lstrip('\n') %}{% endif %}"
    "{% if m.role == 'assistant' and loop.index0 > ns.last %}{% set c = '<think>\n' + r + '\n</think>\n\n' + c %}"
    "{% endif %}{{ '<|im_start|>' + m.role + '\n' + c + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
QWEN3_OPENS = QWEN3.replace("'<|im_start|>assistant\n'", "'<|im_start|>assistant\n<think>\n'")
R1 = (  # the prompt opens the reasoning, and no reply in the template has one
    "{% for m in messages %}{% if m.role == 'user' %}{{ '<|User|>' + m.content }}{% else %}"
    "{{ '<|Assistant|>' + m.content.split('</think>')[-1] + '<|end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|Assistant|><think>\n' }}{% endif %}"
)
KEEPS = QWEN3_OPENS.replace("loop.index0 > ns.last", "r")  # reasoning stays in earlier replies

GLM = (  # the next message's header ends a reply
    "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)
GLM_THINKING = (  # reasoning before the last reply, empty reasoning before the others
    "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}"
    "{% endif %}{% endfor %}{% for m in messages %}{{ '<|' + m.role + '|>\n' }}{% set c = m.content %}"
    "{% if m.role == 'assistant' %}{% set r = '' %}{% if '</think>' in c %}"
    "{% set r = c.split('</think>')[0].split('<think>')[-1].strip() %}{% set c = c.split('</think>')[-1].strip() %}"
    "{% endif %}{{ '<think>' + (r if loop.index0 > ns.last else '') + '</think>\n' + c + '<|end|>' }}{% else %}{{ c }}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
TAGS = (  # a reply stands between tags
    "{% for m in messages %}{{ '<|' + m.role + '|>' + ('<answer>\n' + m.content + '\n</answer>' if m.role == "
    "'assistant' else m.content) + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
HARMONY = (  # a channel before a reply, and another marker behind the last one
    "{% for m in messages %}{{ '<|start|>' + m.role + ('<|channel|>final' if m.role == 'assistant' else '') + "
    "'<|message|>' + m.content + ('<|return|>' if loop.last and m.role == 'assistant' else '<|end|>') }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}"
)

_CHATML = ["<|im_start|>", "<|im_end|>"]
# name: (kind of tokenizer, template, special tokens, EOS, white space that special tokens swallow)
FIELD = {
    "llama2 legacy, chatml": ("prepend", CHATML, ["<s>", *_CHATML], "<|im_end|>", ""),
    "llama2 legacy, zephyr": ("prepend", ZEPHYR, ["<s>", "</s>"], "</s>", ""),
    "llama2, first, chatml": ("first", CHATML, ["<s>", *_CHATML], "<|im_end|>", ""),
    "llama2, always, chatml": ("always", CHATML, ["<s>", *_CHATML], "<|im_end|>", ""),
    "llama2 legacy": ("prepend", LLAMA2, ["<s>", "</s>"], "</s>", ""),
    "llama2, first": ("first", LLAMA2, ["<s>", "</s>"], "</s>", ""),
    "mistral legacy": ("prepend", MISTRAL, ["<s>", "</s>"], "</s>", ""),
    "mistral, control tokens": ("first", MISTRAL, ["<s>", "</s>", "[INST]", "[/INST]"], "</s>", ""),
    "vicuna": ("prepend", VICUNA, ["<s>", "</s>"], "</s>", ""),
    "gemma": ("gemma", GEMMA, ["<s>", "</s>", "<start_of_turn>", "<end_of_turn>"], "</s>", ""),
    "phi3": ("prepend", PHI3, ["<s>", "</s>", "<|user|>", "<|assistant|>", "<|end|>"], "</s>", "right"),
    "phi4": ("byte", PHI4, ["<s>", *_CHATML, "<|im_sep|>"], "<|im_end|>", "both"),
    "gpt2, zephyr": ("byte", ZEPHYR, ["<s>", "</s>"], "</s>", ""),
    "roberta's space, chatml": ("byte, prefix", CHATML, ["<s>", *_CHATML], "<|im_end|>", ""),
    "qwen3": ("byte", QWEN3, ["<s>", *_CHATML], "<|im_end|>", ""),
    "qwen3 thinking": ("byte", QWEN3_OPENS, ["<s>", *_CHATML], "<|im_end|>", ""),
    "r1": ("byte", R1, ["<s>", "<|User|>", "<|Assistant|>", "<|end|>"], "<|end|>", ""),
    "glm": ("byte", GLM, ["<s>", "<|user|>", "<|assistant|>", "<|end|>"], "<|end|>", ""),
    "harmony": (
        "byte",
        HARMONY,
        ["<s>", *(f"<|{w}|>" for w in ("start", "channel", "message", "end", "return"))],
        "<|return|>",
        "",
    ),
    "glm, thinking": ("byte", GLM_THINKING, ["<s>", "<|user|>", "<|assistant|>", "<|end|>"], "<|end|>", ""),
    "tags": ("byte", TAGS, ["<s>", "<|user|>", "<|assistant|>", "<|end|>"], "<|end|>", ""),
    "keeps its reasoning": ("byte", KEEPS, ["<s>", *_CHATML], "<|im_end|>", ""),
}


@cache
def field_tokenizer(name: str) -> PreTrainedTokenizerFast:
    kind, template, special, eos, swallows = FIELD[name]
    core = _byte_level(kind != "byte") if kind.startswith("byte") else _sentence_piece(kind)
    right, left = swallows in ("right", "both"), swallows == "both"
    core.add_special_tokens([AddedToken(t, special=True, normalized=False, rstrip=right, lstrip=left) for t in special])
    core.add_tokens([AddedToken(t, special=False, normalized=False) for t in ("<think>", "</think>")])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token=eos)
    tokenizer.chat_template = template
    return tokenizer


def _byte_level(prefix: bool) -> Tokenizer:
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    core.decoder = decoders.ByteLevel()
    core.train_from_iterator([WORDS] * 20, trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    ))  # fmt: skip
    return core


def _sentence_piece(kind: str) -> Tokenizer:
    """Pieces with `▁` for a space and bytes for the rest. Llama puts a `▁` before a text, Gemma does not."""
    merges = [("▁", "▁"), ("▁▁", "▁"), ("\n", "\n")] if kind == "gemma" else [("▁", "▁"), ("▁▁", "▁")]
    for word in re.findall(r"[A-Za-z]+", WORDS):
        merges += [(word[:end], word[end]) for end in range(1, len(word))] + [("▁", word)]
    letters = ["▁", *map(chr, range(33, 127)), *(["\n"] if kind == "gemma" else [])]
    pieces = dict.fromkeys(["<unk>", *(f"<0x{b:02X}>" for b in range(256)), *letters, *map("".join, merges)])
    core = Tokenizer(models.BPE(
        vocab={piece: i for i, piece in enumerate(pieces)}, merges=list(dict.fromkeys(merges)), unk_token="<unk>",
        byte_fallback=True, fuse_unk=True,
    ))  # fmt: skip
    if kind == "prepend":
        core.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    elif kind == "gemma":
        core.normalizer = normalizers.Replace(" ", "▁")
    else:
        core.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=kind, split=False)
    ends = [] if kind == "gemma" else [decoders.Strip(" ", 1, 0)]
    core.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *ends])
    return core
