"""The settings of the trainings: what train_dpo.py, train_value.py and train_sft.py take.

Nothing here imports torch, so that a script's --help is quick.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from sweet_rl.models.log_probs.attention import AttentionSettings
from sweet_rl.runs.cli import UNRECORDED, alias
from sweet_rl.runs.errors import UserError
from sweet_rl.training.length_normalization import NORMALIZE

OBJECTIVES = ("preference", "classification")
UNITS = ("turn", "trajectory")
TOO_LONG = ("drop", "oldest_turns")
KEEP = ("last", "best")
OPTIMIZERS = ("adamw", "adamw_8bit")
SHARDING = ("none", "fsdp2")
LEARNING_RATE = 2e-7  # the paper, table 5
LORA_LEARNING_RATE = 5e-6  # of DPO with an adapter in TRL and LLaMA-Factory, where all weights take 5e-7


def check_setting(name: str, value: Any, holds: bool, wanted: str) -> None:
    """Raise UserError naming the flag `name`, unless `holds` or the value is None."""
    if value is not None and not holds:
        raise UserError(f"--{name} is {value!r}; it must {wanted}.")


def check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    """Raise UserError naming the flag `name`, unless the value is a known one."""
    check_setting(name, value, value in known, f"be {' or '.join(known)}")


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
            credit at the turn that earned it (docs/before_you_train.md). Loads the reference beside the model.
    """

    beta: float = 0.1
    nll_loss_coef: float = 0.0
    normalize: str = "auto"
    mean_log_prob: Annotated[bool, UNRECORDED] = False
    label_smoothing: float = 0.0
    ipo: bool = False
    kl_coef: float = 0.0

    def __post_init__(self) -> None:
        check_setting("beta", self.beta, self.beta > 0, "be above 0")
        check_setting("nll_loss_coef", self.nll_loss_coef, self.nll_loss_coef >= 0, "not be negative")
        check_setting("kl_coef", self.kl_coef, self.kl_coef >= 0, "not be negative")
        check_choice("normalize", self.normalize, (*NORMALIZE, "auto"))
        check_setting(
            "label_smoothing", self.label_smoothing, 0 <= self.label_smoothing < 0.5, "be at least 0 and below 0.5"
        )
        if self.ipo and self.label_smoothing:
            raise UserError("--label_smoothing is for the log-sigmoid loss; --ipo has none. Give one of them.")
        if self.mean_log_prob and self.normalize not in ("auto", "trajectory"):
            raise UserError(
                f"--mean_log_prob means --normalize trajectory, but --normalize is {self.normalize}. Give one."
            )

    @property
    def normalization(self) -> str:
        """`normalize` with "auto" resolved: one of NORMALIZE."""
        return self.normalize if self.normalize != "auto" else "trajectory" if self.mean_log_prob else "none"


@dataclass(frozen=True)
class ValueSettings:
    """What a value head learns.

    Attributes:
        objective: Loss of the values: preference or classification. preference is Bradley-Terry on pairs, as
            equation 2 with values in place of log-ratios; classification is the cross-entropy of each value as the
            logit of the dialogue's success (the value function of Figure 3a).
        unit: Unit that has a value: turn or trajectory. With turn, every turn of the agent has one, and a dialogue's
            score is their sum; with trajectory, there is one value at the dialogue's end.
        beta: Scale of the values in the preference loss.
    """

    objective: str = "preference"
    unit: str = "turn"
    beta: float = 1.0

    def __post_init__(self) -> None:
        check_choice("objective", self.objective, OBJECTIVES)
        check_choice("unit", self.unit, UNITS)
        check_setting("beta", self.beta, self.beta > 0, "be above 0")


@dataclass(frozen=True)
class DataSettings:
    """How the records of a dataset become examples.

    Attributes:
        response_template: Markup that opens the agent's turns, for rows whose texts are plain strings.
        max_len: Largest number of tokens of a text; no text is ever cut.
        too_long: Treatment of an example with a longer text: drop or oldest_turns. drop leaves it out; oldest_turns
            removes the oldest turns of its dialogue, and the task and the last turn stay. Counted and reported
            either way.
        max_samples: Number of records to read from the beginning of the dataset; all by default.
        eval_fraction: Share of the tasks that are held out with all their examples. They are evaluated at each epoch's
            end and every --save_steps steps.
    """

    response_template: str | None = None
    max_len: int | None = None
    too_long: str = "drop"
    max_samples: int | None = None
    eval_fraction: float = 0.0

    def __post_init__(self) -> None:
        check_choice("too_long", self.too_long, TOO_LONG)
        check_setting("eval_fraction", self.eval_fraction, 0 <= self.eval_fraction < 1, "be at least 0 and below 1")
        check_setting("max_len", self.max_len, self.max_len is None or self.max_len >= 2, "be at least 2")


@dataclass(frozen=True)
class TrainingSettings(AttentionSettings):
    """How a model is trained, whatever the loss.

    Attributes:
        learning_rate: Peak learning rate of AdamW; by default 2e-7 (paper), and 5e-6 for an adapter.
        min_learning_rate_ratio: Share of the peak at which the cosine schedule ends.
        adam_betas: Decay of AdamW's two moments.
        optim: Optimiser: adamw, or adamw_8bit (its moments in 8 bits; needs bitsandbytes).
        max_epochs: Number of passes over the examples; 1 without --max_steps.
        max_steps: Number of optimiser steps, in place of --max_epochs. Data sets of a few batches then train equally
            long, whatever their size.
        train_batch_size: Largest number of examples per optimiser step, over all processes. The steps of an epoch have
            sizes that differ by at most one.
        micro_train_batch_size: Largest number of examples that one process computes at the same time; by default its
            whole share of the batch.
        max_pairs_per_prompt: Largest number of examples with the same prompt that stay together in a batch. The prompt
            is computed once for them. At 4, a batch of 8 may hold two distinct prompts only.
        lr_scheduler: Name of a schedule of transformers (SchedulerType).
        warmup_ratio: Share of the steps in which the learning rate rises to its peak.
        weight_decay: Weight decay of AdamW, on all weights but biases and norms.
        max_norm: Gradient norm at which gradients are clipped.
        bf16: Compute in bfloat16, and save the weights in it. The optimiser's weights are float32.
        gradient_checkpointing: Compute activations again in the backward pass: less memory, more time.
        sharding: What the processes divide among themselves: none or fsdp2. With none each holds the whole model; fsdp2
            is torch's own way to divide weights, gradients and optimiser.
        zero_stage: Stage of DeepSpeed ZeRO, 0 to 3, another way to divide them; by default plain torch.
        adam_offload: Keep the optimiser's state in the memory of the CPU, with --zero_stage 1, 2 or 3.
        lora_rank: Rank of a LoRA adapter that is trained in place of all weights. It is saved by itself in adapter/
            and, merged, as a whole model.
        lora_alpha: Scale of the adapter times its rank; by default twice the rank.
        lora_dropout: Probability that an input of the adapter is dropped.
        target_modules: Names of the linear layers that get an adapter, for example q_proj,v_proj. all-linear means all
            but the vocabulary projection.
        load_in_4bit: Keep the frozen weights in 4 bits beside the adapter (QLoRA); needs bitsandbytes.
        save_steps: Number of optimiser steps between checkpoints, beside those at each epoch's end; none or -1 for only
            these.
        save_minutes: Minutes between checkpoints; none for none by time. Only the newest checkpoint is kept.
        save_epochs: Write a checkpoint at each epoch's end too. With --keep best there always is one.
        keep: Weights that are kept: last (at the end) or best (of the checkpoint with the lowest evaluation loss).
        logging_steps: Number of optimiser steps between lines of the log.
        report_to: Services that get the figures: none, tensorboard, wandb, or several separated by commas.
        seed: Random seed of the order of the examples, the held-out tasks and new weights.
    """

    learning_rate: float | None = None
    min_learning_rate_ratio: float = 0.1
    adam_betas: tuple[float, ...] = (0.9, 0.95)
    optim: str = "adamw"
    max_epochs: int | None = None
    max_steps: int | None = None
    train_batch_size: int = 8
    micro_train_batch_size: Annotated[int | None, UNRECORDED] = None
    max_pairs_per_prompt: int = 4
    lr_scheduler: str = "cosine"
    warmup_ratio: float = 0.03
    weight_decay: float = 0.0
    max_norm: float = 1.0
    bf16: bool = False
    gradient_checkpointing: Annotated[bool, UNRECORDED, alias("activation_checkpointing")] = False
    sharding: str = "none"
    zero_stage: int | None = None
    adam_offload: Annotated[bool, UNRECORDED] = False
    lora_rank: int | None = None
    lora_alpha: float | None = None
    lora_dropout: float = 0.0
    target_modules: tuple[str, ...] = ("all-linear",)
    load_in_4bit: bool = False
    save_steps: Annotated[int | None, UNRECORDED] = None
    save_minutes: Annotated[float | None, UNRECORDED] = 10.0
    save_epochs: Annotated[bool, UNRECORDED] = True
    keep: str = "last"
    logging_steps: Annotated[int, UNRECORDED] = 10
    report_to: Annotated[str, UNRECORDED] = "none"
    seed: int = 0

    def __post_init__(self) -> None:
        at_least_one = ("max_epochs", "max_steps", "train_batch_size", "micro_train_batch_size", "logging_steps")
        for name in (*at_least_one, "max_pairs_per_prompt", "lora_rank"):
            value = getattr(self, name)
            check_setting(name, value, value is None or value >= 1, "be at least 1")
        if self.max_epochs and self.max_steps:
            raise UserError(
                f"--max_epochs {self.max_epochs} and --max_steps {self.max_steps} both end the training. Give one; "
                'the other may be "none", if a config has it.'
            )
        regular = self.save_steps in (None, -1) or self.save_steps >= 1
        check_setting("save_steps", self.save_steps, regular, "be at least 1, or none")
        if self.save_steps == -1:
            object.__setattr__(self, "save_steps", None)
        for name in ("learning_rate", "lora_alpha", "save_minutes"):
            value = getattr(self, name)
            check_setting(name, value, value is None or value > 0, "be above 0")
        for name in ("weight_decay", "max_norm"):
            check_setting(name, getattr(self, name), getattr(self, name) >= 0, "not be negative")
        self._check_adapter()
        betas = len(self.adam_betas) == 2 and all(0 <= beta < 1 for beta in self.adam_betas)
        check_setting("adam_betas", self.adam_betas, betas, "be two numbers, each at least 0 and below 1: 0.9,0.95")
        ratio = self.min_learning_rate_ratio
        check_setting("min_learning_rate_ratio", ratio, 0 <= ratio <= 1, "be at least 0 and at most 1")
        check_choice("optim", self.optim, OPTIMIZERS)
        check_choice("sharding", self.sharding, SHARDING)
        check_choice("keep", self.keep, KEEP)
        check_setting("warmup_ratio", self.warmup_ratio, 0 <= self.warmup_ratio < 1, "be at least 0 and below 1")
        self._check_sharding()

    def _check_sharding(self) -> None:
        check_setting("zero_stage", self.zero_stage, self.zero_stage in (0, 1, 2, 3), "be 0, 1, 2 or 3")
        if self.adam_offload and not self.zero_stage:
            raise UserError("--adam_offload is done by DeepSpeed ZeRO: give --zero_stage 1, 2 or 3, or leave it out.")
        if self.sharding != "none" and self.zero_stage is not None:
            raise UserError(
                f"--sharding {self.sharding} and --zero_stage {self.zero_stage} both divide the model among the "
                "processes. Give one of them."
            )
        if self.load_in_4bit and not self.plain:
            raise UserError("--load_in_4bit is for a model that is not divided: leave out --zero_stage and --sharding.")
        if self.optim == "adamw_8bit" and self.sharding != "none":
            raise UserError(
                f"--optim adamw_8bit cannot be divided by --sharding {self.sharding}. Leave out one of them."
            )

    def _check_adapter(self) -> None:
        check_setting("lora_dropout", self.lora_dropout, 0 <= self.lora_dropout < 1, "be at least 0 and below 1")
        check_setting("target_modules", self.target_modules, len(self.target_modules) > 0, "name a layer")
        changed = {
            "lora_alpha": self.lora_alpha is not None,
            "lora_dropout": self.lora_dropout > 0,
            "target_modules": self.target_modules != ("all-linear",),
            "load_in_4bit": self.load_in_4bit,
        }
        for name in (name for name, given in changed.items() if given and not self.lora_rank):
            raise UserError(f"--{name} is for an adapter: give --lora_rank, or leave it out.")

    @property
    def autocast(self) -> bool:
        """Whether the model runs under autocast to bfloat16; a divided model has bfloat16 weights when it runs."""
        return self.bf16 and self.plain

    @property
    def plain(self) -> bool:
        """Whether plain torch trains: neither DeepSpeed nor FSDP2."""
        return self.zero_stage is None and self.sharding == "none"

    @property
    def peak_learning_rate(self) -> float:
        """`learning_rate`, or its default: an adapter needs a higher rate than all weights."""
        if self.learning_rate is not None:
            return self.learning_rate
        return LORA_LEARNING_RATE if self.lora_rank else LEARNING_RATE
