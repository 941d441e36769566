"""Memory that a training needs, calculated from the shape of a Llama-like model.

Bytes of weights, gradients, optimiser states and kept activations follow from shapes and dtypes. `RESERVE` is assumed.
benchmarks/gpu_check.py compares the calculation with the tensors of a real training.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

RESERVE = 4e9  # bytes of a GPU for the CUDA context, communication, logits, gathered layers and fragmentation


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a Llama-like model: RMS norms, gated feed-forward, grouped keys, no biases.

    Attributes:
        hidden, layers, heads, key_heads, feed_forward, vocabulary: Sizes of its configuration.
        head_size: Size of one attention head.
        tied: Whether the vocabulary projection is the embedding.
        others: Number of further weights: biases, a vision tower.
    """

    hidden: int
    layers: int
    heads: int
    key_heads: int
    feed_forward: int
    vocabulary: int
    head_size: int
    tied: bool = False
    others: int = 0

    @classmethod
    def of(cls, config: Any, parameters: int | None = None) -> ModelShape:
        """The shape of a model with this `transformers` configuration.

        Args:
            config: Configuration, of the whole model if it has parts for text and pictures.
            parameters: Number of all its weights; what the text model does not have is in `others`.
        """
        text = config.get_text_config()
        heads = text.num_attention_heads
        shape = cls(
            text.hidden_size,
            text.num_hidden_layers,
            heads,
            getattr(text, "num_key_value_heads", None) or heads,
            getattr(text, "intermediate_size", None) or 4 * text.hidden_size,
            text.vocab_size,
            getattr(text, "head_dim", None) or text.hidden_size // heads,
            getattr(config, "tie_word_embeddings", False),  # the part for text need not have it
        )
        return shape if parameters is None else replace(shape, others=parameters - shape.parameters)

    @property
    def linears(self) -> list[tuple[int, int]]:
        """(inputs, outputs) of the linear maps of one layer."""
        queries, keys = self.heads * self.head_size, self.key_heads * self.head_size
        attention = [(self.hidden, queries), (self.hidden, keys), (self.hidden, keys), (queries, self.hidden)]
        return attention + [(self.hidden, self.feed_forward)] * 2 + [(self.feed_forward, self.hidden)]

    @property
    def parameters(self) -> int:
        """Number of weights."""
        layer = sum(inputs * outputs for inputs, outputs in self.linears) + 2 * self.hidden
        vocabularies = 1 if self.tied else 2
        return self.layers * layer + self.hidden + vocabularies * self.vocabulary * self.hidden + self.others

    def adapter_parameters(self, rank: int) -> int:
        """Number of weights of a LoRA adapter on every linear map of the layers."""
        return self.layers * rank * sum(inputs + outputs for inputs, outputs in self.linears)


LLAMA_8B = ModelShape(4096, 32, 32, 8, 14336, 128256, 128)
LLAMA_70B = ModelShape(8192, 80, 64, 8, 28672, 128256, 128)


@dataclass(frozen=True)
class TrainingSetup:
    """What decides the memory of a training.

    Attributes:
        tokens: Tokens of a micro-batch on one GPU.
        gpus: Number of GPUs over which ZeRO or FSDP2 divides.
        bf16: Compute in bfloat16.
        zero_stage: Stage of DeepSpeed ZeRO; None is plain torch, or FSDP2.
        lora_rank: Rank of the adapter; None trains all weights.
        offload: Keep the optimiser in the host's memory.
        accumulates: Add up the gradients of several micro-batches, in float32 under ZeRO-2 and ZeRO-3.
        checkpointing: Keep only the inputs of the layers, and compute the rest again in the backward pass.
        sharding: What FSDP2 divides: "fsdp2" weights, gradients and optimiser, "none" nothing.
    """

    tokens: int = 8192
    gpus: int = 1
    bf16: bool = True
    zero_stage: int | None = None
    lora_rank: int | None = None
    offload: bool = False
    accumulates: bool = False
    checkpointing: bool = True
    sharding: str = "none"

    @property
    def autocast(self) -> bool:
        """Whether autocast computes in bfloat16 with float32 weights; a divided model is cast as it is gathered."""
        return self.bf16 and self.zero_stage is None and self.sharding == "none"


@dataclass(frozen=True)
class Memory:
    """Bytes on one GPU, and in `host` the bytes in the memory of the host for that GPU's share."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    host: float = 0.0

    @property
    def total(self) -> float:
        """Bytes on the GPU, with `RESERVE`."""
        return self.weights + self.gradients + self.optimizer + self.activations + RESERVE


def training_memory(shape: ModelShape, setup: TrainingSetup) -> Memory:
    """Memory of a training with AdamW.

    Plain torch keeps trained weights in float32, and with bf16 a copy of them in bfloat16 (autocast). DeepSpeed keeps
    them in bfloat16, with a float32 copy in the optimiser; FSDP2 divides float32 weights and gathers one layer at a
    time. Frozen weights under an adapter have the computing dtype.
    """
    size = 2 if setup.bf16 else 4
    trained = shape.adapter_parameters(setup.lora_rank) if setup.lora_rank else shape.parameters
    frozen = shape.parameters if setup.lora_rank else 0
    weights: float
    gradients: float
    optimizer: float
    if setup.zero_stage is None:
        copies = 2 * trained if setup.autocast and not setup.lora_rank else 0
        parts = setup.gpus if setup.sharding == "fsdp2" else 1
        weights = (4 * trained + copies + size * frozen) / parts
        gradients, optimizer = 4 * trained / parts, 8 * trained / parts
    else:
        wide = setup.accumulates and setup.zero_stage >= 2
        weights, gradients, optimizer = size * (trained + frozen), (4 if wide else size) * trained, 12 * trained
        optimizer /= setup.gpus if setup.zero_stage >= 1 else 1
        gradients /= setup.gpus if setup.zero_stage >= 2 else 1
        weights /= setup.gpus if setup.zero_stage >= 3 else 1
    host = optimizer if setup.offload else 0
    return Memory(weights, gradients, optimizer - host, activation_bytes(shape, setup), host)


def checkpoint_bytes(shape: ModelShape, setup: TrainingSetup) -> int:
    """Bytes of a checkpoint on disk: the trained weights in float32 and AdamW's states.

    Below stage 3 DeepSpeed writes the weights a second time, in their own number format.
    """
    if setup.lora_rank:
        return 12 * shape.adapter_parameters(setup.lora_rank)
    if setup.zero_stage in (None, 3):
        return 12 * shape.parameters
    return (12 + (2 if setup.bf16 else 4)) * shape.parameters


def activation_bytes(shape: ModelShape, setup: TrainingSetup) -> float:
    """Activations kept for the backward pass: what autograd saves in the layers of a Llama of transformers, counted.

    With checkpointing: the inputs of all layers, and everything of one layer, which is computed again.
    """
    hidden, keys, forward = (20, 4, 8) if setup.bf16 else (32, 8, 16)
    if setup.autocast:
        hidden = 16 if setup.lora_rank else 30  # the residual stream of float32 weights is float32
    row = 2 if setup.bf16 and (not setup.autocast or setup.lora_rank) else 4
    layer = hidden * shape.hidden + keys * shape.key_heads * shape.head_size + forward * shape.feed_forward
    layer += 4 * shape.heads  # log-sum-exp of the attention
    kept = row * shape.hidden * shape.layers + layer if setup.checkpointing else layer * shape.layers
    return setup.tokens * kept
