"""How the tiny agents are made: tokenizer and random weights, and training on imitated dialogues."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from tqdm import tqdm
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from lab.mini_agents import imitation
from lab.mini_agents.imitation import ImitationSettings
from sweet_rl.dialogues.mini.worlds import HARD
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import load_weights, model_path
from sweet_rl.runs.cli import print_summary
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.progress import progress_bar
from sweet_rl.runs.run import open_model
from sweet_rl.training.loop import check_finite

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
        stream: Function from a seed to an endless iterator of (hint or empty, messages).
        vocab_size: Size of the tokenizer's vocabulary, without the whole texts.
        numbers: Whether numbers below 100 are one token each, and those in an answer have a larger weight.
        whole: Texts that are one token each, longest first.
    """

    stream: Callable[..., Iterator[tuple[str, list[dict]]]]
    vocab_size: int = 1024
    numbers: bool = False
    whole: tuple[str, ...] = ()


LESSONS = {  # by world
    "quick": Lessons(imitation.imitation_stream, numbers=True),
    "hard": Lessons(partial(imitation.imitation_stream, world=HARD), vocab_size=1280, numbers=True),
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


class DialogueTokens(Protocol):
    """Turns dialogues into token ids and the loss weight of each: int64 [T], float32 [T]."""

    def encode(self, hint: str, messages: list[dict]) -> tuple[torch.Tensor, torch.Tensor]: ...


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
        tokens, loss_weights = torch.tensor(ids), torch.tensor(weights)
        answer = len(pieces[-1]) + 1
        numbers = self.is_number[tokens[-answer:]]
        if messages[-1]["role"] == "assistant":
            loss_weights[-answer:][numbers] *= ANSWER_NUMBER_WEIGHT
        return tokens, loss_weights


@dataclass
class TrainableAgent:
    """A model with what its training needs.

    Attributes:
        model: A causal language model of the Llama family.
        tokenizer: Its tokenizer, which is saved beside it.
        encoder: What turns dialogues into its token ids.
        optimizers: The optimizers of its parameters.
    """

    model: Any
    tokenizer: PreTrainedTokenizerBase
    encoder: DialogueTokens
    optimizers: list[torch.optim.Optimizer]


def new_agent(lessons: Lessons, settings: ImitationSettings, layers: int = 3, width: int = 128) -> TrainableAgent:
    """Return a tiny agent with random weights and a tokenizer for these lessons."""
    torch.manual_seed(settings.seed)
    tokenizer = make_tokenizer(lessons)
    model = make_model(len(tokenizer), width=width, layers=layers)
    return TrainableAgent(model, tokenizer, DialogueEncoder(tokenizer), make_optimizers(model, settings.lr))


def load_agent(name: str, settings: ImitationSettings) -> TrainableAgent:
    """Return a tiny agent (a folder or a packaged one) for more training. Raises UserError if it is no tiny agent."""
    tokenizer = ChatFormat.from_pretrained(name).tokenizer
    if ASSISTANT not in tokenizer.get_vocab():
        raise UserError(f"--pretrain {name} is no tiny agent. A chat model imitates in lab/smollm2.")
    model = load_weights(model_path(name))
    return TrainableAgent(model, tokenizer, DialogueEncoder(tokenizer), make_optimizers(model, settings.lr))


def batches(
    encoder: DialogueTokens, lessons: Lessons, batch_size: int, seed: int, pool: int = 8
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
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


def make_optimizers(model: Any, lr: float) -> list[torch.optim.Optimizer]:
    """Return Muon for the matrices of the layers, and AdamW for the embedding and the norms."""
    matrices = [p for p in model.model.layers.parameters() if p.ndim == 2]
    inside = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in inside]
    return [
        torch.optim.Muon(matrices, lr=lr, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=lr, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def imitate(agent: TrainableAgent, lessons: Lessons, settings: ImitationSettings, folder: Path) -> dict:
    """Train an agent from the last checkpoint in `folder`, if there is one, and save it there.

    Returns:
        The last figures on held-out dialogues, and the number of parameters.
    """
    model, optimizers = agent.model, agent.optimizers
    state_path = folder / "training_state.pt"
    start, summary = 0, {}
    if state_path.exists():
        state = torch.load(state_path, weights_only=True)
        start = state["step"]
        model.load_state_dict(state["model"])
        for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
    stream = batches(agent.encoder, lessons, settings.batch_size, seed=settings.seed + start)
    held_out = next(batches(agent.encoder, lessons, 4 * settings.batch_size, seed=-2))
    num_steps = settings.num_steps
    for step in progress_bar(range(start, num_steps), initial=start, total=num_steps, desc="imitation"):
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = settings.lr * min(1.0, (step + 1) / min(100, num_steps / 10), 4 * (1 - step / num_steps))
        ids, weights = next(stream)
        with torch.autocast("cpu", torch.bfloat16, enabled=settings.bf16):
            loss = weighted_loss(model, ids, weights)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        if (step + 1) % settings.checkpoint_every == 0 or step + 1 == num_steps:
            with torch.inference_mode():
                held_out_loss = float(weighted_loss(model, *held_out))
            check_finite(step + 1, {"held-out loss": held_out_loss})
            summary = {"step": step + 1, "held_out_loss": held_out_loss}
            tqdm.write(", ".join(f"{name} {value:.4g}" for name, value in summary.items()))
            optimizer_states = [optimizer.state_dict() for optimizer in optimizers]
            state = {"step": step + 1, "model": model.state_dict(), "optimizers": optimizer_states}
            torch.save(state, state_path.with_suffix(".new"))
            state_path.with_suffix(".new").replace(state_path)
            model.save_pretrained(folder)
            agent.tokenizer.save_pretrained(folder)
    state_path.unlink(missing_ok=True)
    summary["parameters"] = sum(p.numel() for p in model.parameters())
    print(f"saved to {folder}: {summary['parameters']:,} parameters")
    return summary


def make_agent(
    save_path: str,
    agent: Callable[[], TrainableAgent],
    lessons: Lessons,
    settings: ImitationSettings,
    recorded: dict,
    inputs: Sequence[str | None] = (),
    overwrite: bool = False,
) -> None:
    """Train an agent into a folder with a manifest, unless it is complete already.

    Args:
        save_path: Folder of the model.
        agent: Function that makes the agent before its training.
        lessons: What it imitates.
        settings: How it is trained.
        recorded: Settings for the manifest.
        inputs: Folders and files that it is made from; None for a model that is not on this disk.
        overwrite: Whether an existing model is replaced.
    """
    with open_model(save_path, recorded, inputs, overwrite) as output:
        if output.finished:
            output.show()
            return
        print_summary(output.finish(imitate(agent(), lessons, settings, Path(save_path))))
