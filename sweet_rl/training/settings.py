"""The settings of the trainings: what train_dpo.py, train_value.py and train_sft.py take.

Nothing here imports torch, so that a script's --help is quick.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from sweet_rl.models.settings import AttentionSettings
from sweet_rl.runs.cli import UNRECORDED
from sweet_rl.runs.errors import UserError

LEARNING_RATE = 2e-7  # the paper, table 5
LORA_LEARNING_RATE = 5e-6  # of DPO with an adapter in TRL and LLaMA-Factory, where all weights take 5e-7

Share = Annotated[float, Field(ge=0, lt=1)]


@dataclass(frozen=True)
class PreferenceSettings:
    """The DPO loss (equations 2 and 4).

    Attributes:
        beta: Scale of the log-ratios (paper: 0.1).
        nll_loss_coef: Weight of the chosen text's mean NLL on trained tokens (paper: 0.01).
        normalize: Length normalisation of a text's log-ratio: turn, trajectory, none or auto. turn is the sum over
            turns of per-turn means (the paper's critic), trajectory one mean (the released critic), none the summed
            log-probs (plain DPO). auto is trajectory with --mean_log_prob, else none.
        mean_log_prob: Released name of --normalize trajectory.
        label_smoothing: Probability that a pair's label is wrong (conservative DPO, Mitchell 2023).
        ipo: Take the squared loss of IPO (Azar et al. 2023, equation 17) in place of the log-sigmoid.
        kl_coef: Weight of KL(reference || model), summed over both texts as their log-ratios are; it keeps a critic's
            credit at the turn that earned it (docs/train.md). Loads the reference beside the model.
    """

    beta: PositiveFloat = 0.1
    nll_loss_coef: NonNegativeFloat = 0.0
    normalize: Literal["turn", "trajectory", "none", "auto"] = "auto"
    mean_log_prob: Annotated[bool, UNRECORDED] = False  # recorded as `normalize` (complete.preference_settings)
    label_smoothing: Annotated[float, Field(ge=0, lt=0.5)] = 0.0
    ipo: bool = False
    kl_coef: NonNegativeFloat = 0.0

    def __post_init__(self) -> None:
        if self.ipo and self.label_smoothing:
            raise UserError("--label_smoothing is for the log-sigmoid loss; --ipo has none. Give one of them.")
        if self.mean_log_prob and self.normalize not in ("auto", "trajectory"):
            raise UserError(
                f"--mean_log_prob means --normalize trajectory, but --normalize is {self.normalize}. Give one."
            )

    @property
    def normalization(self) -> str:
        """`normalize` with "auto" resolved."""
        return self.normalize if self.normalize != "auto" else "trajectory" if self.mean_log_prob else "none"


@dataclass(frozen=True)
class ValueSettings:
    """What a value head learns. Every turn of the agent has a value, and a dialogue's score is their sum.

    Attributes:
        objective: Loss of the values: preference or classification. preference is Bradley-Terry on pairs, as
            equation 2 with values in place of log-ratios; classification is the cross-entropy of each value as the
            logit of the dialogue's success (the value function of Figure 3a).
        beta: Scale of the values in the preference loss.
    """

    objective: Literal["preference", "classification"] = "preference"
    beta: PositiveFloat = 1.0


@dataclass(frozen=True)
class DataSettings:
    """How the records of a dataset become examples.

    Attributes:
        response_template: Markup that opens the agent's turns, for rows whose texts are plain strings.
        max_len: Largest number of tokens of a text. No text is ever cut: examples with a longer one are left out, and
            counted.
        max_samples: Number of records to read from the beginning of the dataset; all by default.
    """

    response_template: str | None = None
    max_len: Annotated[int, Field(ge=2)] | None = None
    max_samples: PositiveInt | None = None


@dataclass(frozen=True)
class TrainingSettings(AttentionSettings):
    """How a model is trained, whatever the loss.

    Attributes:
        learning_rate: Peak learning rate of AdamW; by default 2e-7 (paper), and 5e-6 for an adapter.
        min_learning_rate_ratio: Share of the peak at which the cosine schedule ends.
        adam_betas: Decay of AdamW's two moments.
        max_epochs: Number of passes over the examples; by default 1, or as many as --max_steps takes.
        max_steps: Number of optimiser steps at which the training ends, if its epochs have not ended before.
        train_batch_size: Largest number of examples per optimiser step, over all processes. The steps of an epoch have
            sizes that differ by at most one.
        micro_train_batch_size: Largest number of examples that one process computes at the same time; by default its
            whole share of the batch.
        max_pairs_per_prompt: Largest number of examples with the same prompt that stay together in a batch. The prompt
            is computed once for them. With 4, a batch of 8 examples can have as few as two prompts.
        warmup_ratio: Share of the steps in which the learning rate rises to its peak.
        weight_decay: Weight decay of AdamW, on all weights but biases and norms.
        max_norm: Gradient norm at which gradients are clipped.
        bf16: Compute in bfloat16, and save the weights in it. The optimiser's weights are float32.
        gradient_checkpointing: Compute activations again in the backward pass: less memory, more time.
        zero_stage: Stage of DeepSpeed ZeRO, 0 to 3. It divides the optimiser (1), gradients (2) and weights (3) among
            the processes. By default plain torch: each process holds the whole model.
        adam_offload: Keep the optimiser's state in the memory of the CPU, with --zero_stage 1, 2 or 3.
        lora_rank: Rank of a LoRA adapter that is trained in place of all weights. It is saved by itself in adapter/
            and, merged, as a whole model.
        lora_alpha: Scale of the adapter times its rank; by default twice the rank.
        lora_dropout: Probability that an input of the adapter is dropped.
        target_modules: Names of the linear layers that get an adapter, for example q_proj,v_proj. all-linear means all
            but the vocabulary projection.
        load_in_4bit: Keep the frozen weights in 4 bits beside the adapter (QLoRA); needs bitsandbytes.
        save_steps: Number of optimiser steps between checkpoints, beside those by time; none or -1: by time only.
        save_minutes: Minutes between checkpoints by time, or none. Only the newest checkpoint is kept.
        logging_steps: Number of optimiser steps between lines of the log.
        report_to: Services that get the figures: none, tensorboard, wandb, or several separated by commas.
        seed: Random seed of the order of the examples and of new weights.
    """

    learning_rate: PositiveFloat | None = None
    min_learning_rate_ratio: Annotated[float, Field(ge=0, le=1)] = 0.1
    adam_betas: Annotated[tuple[Share, ...], Field(min_length=2, max_length=2)] = (0.9, 0.95)
    max_epochs: PositiveInt | None = None
    max_steps: PositiveInt | None = None
    train_batch_size: PositiveInt = 8
    micro_train_batch_size: Annotated[PositiveInt | None, UNRECORDED] = None
    max_pairs_per_prompt: PositiveInt = 4
    warmup_ratio: Share = 0.03
    weight_decay: NonNegativeFloat = 0.0
    max_norm: NonNegativeFloat = 1.0
    bf16: bool = False
    gradient_checkpointing: Annotated[bool, UNRECORDED] = False
    zero_stage: Literal[0, 1, 2, 3] | None = None
    adam_offload: Annotated[bool, UNRECORDED] = False
    lora_rank: PositiveInt | None = None
    lora_alpha: PositiveFloat | None = None
    lora_dropout: Share = 0.0
    target_modules: Annotated[tuple[str, ...], Field(min_length=1)] = ("all-linear",)
    load_in_4bit: bool = False
    save_steps: Annotated[int | None, UNRECORDED] = None
    save_minutes: Annotated[PositiveFloat | None, UNRECORDED] = 10.0
    logging_steps: Annotated[PositiveInt, UNRECORDED] = 10
    report_to: Annotated[str, UNRECORDED] = "none"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.save_steps is not None and self.save_steps != -1 and self.save_steps < 1:
            raise UserError(f"--save_steps is {self.save_steps}; it must be at least 1, or none.")
        if self.save_steps == -1:
            object.__setattr__(self, "save_steps", None)
        if self.adam_offload and not self.zero_stage:
            raise UserError("--adam_offload is done by DeepSpeed ZeRO: give --zero_stage 1, 2 or 3, or leave it out.")
        if self.load_in_4bit and not (self.lora_rank and self.plain):
            raise UserError("--load_in_4bit is for weights beside an adapter: give --lora_rank, and no --zero_stage.")

    @property
    def autocast(self) -> bool:
        """Whether the model runs under autocast to bfloat16; under ZeRO the weights are bfloat16 themselves."""
        return self.bf16 and self.plain

    @property
    def plain(self) -> bool:
        """Whether plain torch trains, not DeepSpeed."""
        return self.zero_stage is None

    @property
    def peak_learning_rate(self) -> float:
        """`learning_rate`, or its default: an adapter needs a higher rate than all weights."""
        if self.learning_rate is not None:
            return self.learning_rate
        return LORA_LEARNING_RATE if self.lora_rank else LEARNING_RATE
