"""Training agents to imitate: tokenizer and random weights of the tiny ones, batches and loss of imitated dialogues."""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from lab.pages import page_imitation
from lab.pages.pages import fixed_texts
from sweet_rl.chat import ChatFormat
from sweet_rl.log_probs.privileged_information import with_text
from sweet_rl.mini import imitation
from sweet_rl.mini.worlds import HARD

BEGIN, END, PAD, USER, ASSISTANT = "<|begin|>", "<|end|>", "<|pad|>", "<|user|>", "<|assistant|>"
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
ANSWER_NUMBER_WEIGHT = 4.0
CONTEXT_WEIGHT = 0.1
WORDS = Regex(r" ?\d+| ?[A-Za-z_']+| ?[^\sA-Za-z_'\d]+|\n *|\s+")


@dataclass(frozen=True)
class Lessons:
    """What a tiny agent learns from.

    Attributes:
        stream: from a seed to an endless iterator of (hint or empty, messages).
        vocab_size: of the tokenizer, without the whole texts.
        numbers: whether numbers below 100 are one token each, and those in an answer have a larger weight.
        whole: texts that are one token each, longest first.
    """

    stream: Callable[[int], Iterator[tuple[str, list[dict]]]]
    vocab_size: int = 1024
    numbers: bool = False
    whole: tuple[str, ...] = ()


LESSONS = {
    "code": Lessons(imitation.imitation_stream, numbers=True),
    "hard": Lessons(partial(imitation.imitation_stream, world=HARD), vocab_size=1280, numbers=True),
    "html": Lessons(page_imitation.imitation_stream, whole=tuple(fixed_texts())),
}


def make_tokenizer(lessons: Lessons, num_dialogues: int = 4000) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer on imitated dialogues."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(WORDS, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [PAD, BEGIN, END, USER, ASSISTANT]
    trainer = trainers.BpeTrainer(
        vocab_size=lessons.vocab_size, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    stream = lessons.stream(-1)
    numbers = ["".join(f" {number}" for number in range(100))] if lessons.numbers else []
    texts = (text for _ in range(num_dialogues) for text in [*dialogue_texts(*next(stream)), *numbers])
    if lessons.whole:
        whole = re.compile("|".join(map(re.escape, lessons.whole)))
        texts = (piece for text in texts for piece in whole.split(text) if piece)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in lessons.whole])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BEGIN,
        eos_token=END,
        pad_token=PAD,
        chat_template=CHAT_TEMPLATE,
        additional_special_tokens=[USER, ASSISTANT],
        clean_up_tokenization_spaces=False,
    )


def dialogue_texts(hint: str, messages: list[dict]) -> list[str]:
    """Return the texts of a dialogue, each of which is tokenised by itself."""
    return [hint, *(message["content"] for message in messages)]


def make_model(vocab_size: int, width: int = 128, layers: int = 3, heads: int = 4) -> LlamaForCausalLM:
    """Return a Llama with random weights, about 0.8 million parameters at the default shape."""
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        initializer_range=0.05,
    )
    return LlamaForCausalLM(config)


class ChatEncoder:
    """Turns dialogues into the token ids of a pretrained chat model and loss weights: 1 for its own turns, else 0."""

    def __init__(self, chat: ChatFormat):
        self.chat = chat

    def encode(self, hint: str, messages: list[dict]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return token ids and the loss weight of each: int64 [T], float32 [T]."""
        parts = self.chat.dialogue(messages)
        ids, train = self.chat.encode(with_text(parts, hint) if hint else parts)
        return torch.tensor(ids), torch.tensor(train, dtype=torch.float32)


class DialogueEncoder:
    """Turns dialogues into a tiny agent's token ids and loss weights, laid out as the chat template lays them out."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast):
        self.backend = tokenizer.backend_tokenizer
        self.ids = {role: tokenizer.convert_tokens_to_ids(f"<|{role}|>") for role in ("user", "assistant")}
        self.begin, self.end = tokenizer.bos_token_id, tokenizer.eos_token_id
        self.is_number = torch.tensor(
            [token.strip("Ġ").isdigit() for token in tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))]
        )

    def encode(self, hint: str, messages: list[dict]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return token ids and the loss weight of each: int64 [T], float32 [T]."""
        pieces = [encoding.ids for encoding in self.backend.encode_batch(dialogue_texts(hint, messages))]
        ids = [self.begin, *pieces[0]]
        weights = [CONTEXT_WEIGHT] * len(ids)
        for message, piece in zip(messages, pieces[1:], strict=True):
            ids += [self.ids[message["role"]], *piece, self.end]
            weight = 1.0 if message["role"] == "assistant" else CONTEXT_WEIGHT
            weights += [0.0, *([weight] * len(piece)), weight]
        tokens, weight = torch.tensor(ids), torch.tensor(weights)
        answer = len(pieces[-1]) + 1
        numbers = self.is_number[tokens[-answer:]]
        if messages[-1]["role"] == "assistant":
            weight[-answer:][numbers] *= ANSWER_NUMBER_WEIGHT
        return tokens, weight


def batches(
    encoder: DialogueEncoder | ChatEncoder, lessons: Lessons, batch_size: int, seed: int, pool: int = 8
) -> Iterator[tuple]:
    """Yield (ids, weights) of dialogues of similar length: int64 [B, T], float32 [B, T], padded with zeros."""
    stream = lessons.stream(seed)
    rng = random.Random(seed)
    while True:
        encoded = sorted((encoder.encode(*next(stream)) for _ in range(batch_size * pool)), key=lambda row: len(row[0]))
        groups = [encoded[start : start + batch_size] for start in range(0, len(encoded), batch_size)]
        rng.shuffle(groups)
        for group in groups:
            pad = torch.nn.utils.rnn.pad_sequence
            yield pad([ids for ids, _ in group], batch_first=True), pad([w for _, w in group], batch_first=True)


def weighted_loss(model: LlamaForCausalLM, ids: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return the next-token loss, a mean with `weights` [B, T]. Causal attention needs no mask for right padding."""
    hidden = model.model(ids[:, :-1], use_cache=False).last_hidden_state
    scored = weights[:, 1:] > 0
    logits = model.lm_head(hidden[scored])
    losses = torch.nn.functional.cross_entropy(logits, ids[:, 1:][scored], reduction="none")
    weight = weights[:, 1:][scored]
    return (losses * weight).sum() / weight.sum()


@torch.inference_mode()
def number_error(model: LlamaForCausalLM, ids: torch.Tensor, weights: torch.Tensor) -> float:
    """Return the share of numbers in answers that the model predicts wrongly from the text before them."""
    numbers = weights[:, 1:] == ANSWER_NUMBER_WEIGHT
    hidden = model.model(ids[:, :-1], use_cache=False).last_hidden_state
    guesses = model.lm_head(hidden[numbers]).argmax(-1)
    return float((guesses != ids[:, 1:][numbers]).float().mean())


def make_optimizers(model: LlamaForCausalLM, lr: float, tiny: bool = True) -> list[torch.optim.Optimizer]:
    """Return Muon for the matrices of the layers, AdamW for the embedding and the norms; AdamW for all if not tiny."""
    if not tiny:
        return [torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.98), weight_decay=0.0)]
    matrices = [p for p in model.model.layers.parameters() if p.ndim == 2]
    inside = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in inside]
    return [
        torch.optim.Muon(matrices, lr=lr, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=lr, betas=(0.9, 0.98), weight_decay=0.0),
    ]
