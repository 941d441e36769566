"""Small tokenizers with the chat templates of real model families, made in the test."""

from functools import cache

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

LLAMA3 = (
    "{% for message in messages %}{% set content = '<|start_header_id|>' + message['role'] + "
    "'<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
    "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
LLAMA31 = (  # a system block with the date, always; a system message stands in it
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] | trim %}"
    "{% set messages = messages[1:] %}{% else %}{% set system = '' %}{% endif %}"
    "{{ '<|start_header_id|>system<|end_header_id|>\n\nToday Date: ' + (date_string or '26 Jul 2024') + '\n\n' + "
    "system + '<|eot_id|>' }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + "
    "'<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
QWEN3 = (  # replies lose their reasoning in the history, and the generation header differs from the history's
    "{% for message in messages %}{% set content = message['content'] %}{% if message['role'] == 'assistant' "
    "and '</think>' in content %}{% set content = content.split('</think>')[-1].lstrip('\n') %}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>\n\n</think>\n\n' }}{% endif %}"
)
QWEN3_THINKING = QWEN3.replace("<think>\n\n</think>\n\n", "<think>\n")  # the header opens the reasoning
GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
GEMMA3 = (  # a system message becomes the beginning of the first user message
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set prefix = messages[0]['content'] + '\n\n' %}"
    "{% set messages = messages[1:] %}{% else %}{% set prefix = '' %}{% endif %}{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}"
    "{% endif %}{{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else message['role']) + '\n' + "
    "(prefix if loop.first else '') + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
MISTRAL = (
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}"
    "{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
    "{{ ' ' + message['content'] + eos_token }}{% else %}"
    "{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"
)
LLAMA2 = (  # a BOS before every round, a space before the EOS
    "{% for message in messages %}{% if message['role'] == 'user' %}"
    "{{ bos_token + '[INST] ' + message['content'] | trim + ' [/INST]' }}{% else %}"
    "{{ ' ' + message['content'] | trim + ' ' + eos_token }}{% endif %}{% endfor %}"
)
PHI3 = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>\n' + message['content'] + '<|end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"
)

_LLAMA3 = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
_CHATML = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
_GEMMA = ["<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"]
_PHI3 = ["<|endoftext|>", "<|user|>", "<|assistant|>", "<|end|>", "<|system|>"]
# name: (template, special tokens, BOS, EOS, does the tokenizer put the BOS before plain text, turn's end)
FAMILIES = {
    "llama3": (LLAMA3, _LLAMA3, "<|begin_of_text|>", "<|end_of_text|>", True, "<|eot_id|>"),
    "llama31": (LLAMA31, _LLAMA3, "<|begin_of_text|>", "<|end_of_text|>", True, "<|eot_id|>"),
    "chatml": (CHATML, _CHATML, None, "<|im_end|>", False, "<|im_end|>"),
    "smollm2": (CHATML, ["<|im_start|>", "<|im_end|>"], "<|im_start|>", "<|im_end|>", False, "<|im_end|>"),
    "qwen3": (QWEN3, _CHATML, None, "<|im_end|>", False, "<|im_end|>"),
    "qwen3_thinking": (QWEN3_THINKING, _CHATML, None, "<|im_end|>", False, "<|im_end|>"),
    "gemma": (GEMMA, _GEMMA, "<bos>", "<eos>", True, "<end_of_turn>"),
    "gemma3": (GEMMA3, _GEMMA, "<bos>", "<eos>", True, "<end_of_turn>"),
    "mistral": (MISTRAL, ["<s>", "</s>", "[INST]", "[/INST]"], "<s>", "</s>", True, "</s>"),
    "llama2": (LLAMA2, ["<s>", "</s>"], "<s>", "</s>", True, "</s>"),
    "phi3": (PHI3, _PHI3, None, "<|endoftext|>", False, "<|end|>"),
}
THINK = ["<think>", "</think>"]  # added tokens that are not special, as in Qwen3


@cache
def small_tokenizer(family: str) -> PreTrainedTokenizerFast:
    template, special, bos, eos, adds_bos, _ = FAMILIES[family]
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    corpus = ["What is the late fee? I want to answer: def fee(days):\n    return 5 if days > 3 else 0\n"] * 20
    core.train_from_iterator(
        corpus,
        trainers.BpeTrainer(vocab_size=330, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False),
    )
    core.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special])
    if family.startswith("qwen3"):
        core.add_tokens([AddedToken(text, special=False, normalized=False) for text in THINK])
    if adds_bos:
        core.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, core.token_to_id(bos))]
        )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, bos_token=bos, eos_token=eos)
    tokenizer.chat_template = template
    return tokenizer
