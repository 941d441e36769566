"""How a model is trained, whatever the loss: the settings, and what they are for `transformers.Trainer`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import get_int_from_env
from transformers import TrainingArguments
from transformers.integrations import get_available_reporting_integrations

from sweet_rl.errors import UserError
from sweet_rl.training.adapters import require_peft

CHECKPOINTS = "checkpoints"
KEEP = ("last", "best")


@dataclass(frozen=True)
class LoopSettings:
    """How a model is trained, whatever the loss.

    train_batch_size: examples an optimiser step, over all processes. micro_train_batch_size: examples that
    go through the model at once in one process (None: its whole share). save_steps: steps between
    checkpoints, before each of which the held-out tasks are evaluated. deepspeed: path of a DeepSpeed
    configuration, None for plain torch. lora_rank: train an adapter of this rank, None for all weights; lora_alpha:
    its scale times the rank (None: twice the rank). keep: the last weights, or those of the checkpoint with the
    best evaluation loss.
    """

    learning_rate: float = 2e-7
    max_epochs: int = 1
    train_batch_size: int = 8
    micro_train_batch_size: int | None = None
    bf16: bool = False
    gradient_checkpointing: bool = False
    deepspeed: str | None = None
    lr_scheduler: str = "cosine"
    warmup_ratio: float = 0.03
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    seed: int = 0
    save_steps: int = 100
    logging_steps: int = 10
    report_to: str = "none"
    pairs_together: int = 4
    lora_rank: int | None = None
    lora_alpha: float | None = None
    keep: str = "last"

    # What may differ when a training is continued: it changes the pace, not what is learned.
    PACE = ("micro_train_batch_size", "gradient_checkpointing", "save_steps", "logging_steps", "report_to")

    def that_matter(self) -> dict[str, Any]:
        """What decides the weights that come out, for the manifest."""
        settings = {name: value for name, value in asdict(self).items() if name not in self.PACE}
        if self.keep == "best":
            settings["save_steps"] = self.save_steps  # which weights can be the best
        return settings | {"deepspeed": self.deepspeed and Path(self.deepspeed).stem}

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights as they are loaded. DeepSpeed keeps a float32 copy of bfloat16 weights, and an adapter is
        float32 beside them; without either the weights themselves are float32."""
        return torch.bfloat16 if self.bf16 and (self.deepspeed or self.lora_rank) else torch.float32


def training_arguments(settings: LoopSettings, save_path: str | Path, evaluate: bool = False) -> TrainingArguments:
    """The Trainer's arguments; `evaluate`: there are held-out tasks. Raises UserError for sizes that do
    not divide or settings it refuses."""
    _check(settings, evaluate)
    if settings.lora_rank:
        require_peft()
    if settings.deepspeed:
        _require_deepspeed(settings.deepspeed)
    # The sizes must be known before the arguments are made: DeepSpeed's configuration is filled in from them then.
    processes = get_int_from_env(("WORLD_SIZE",), 1)
    share, rest = divmod(settings.train_batch_size, processes)
    micro = settings.micro_train_batch_size or share
    if rest or share < 1 or share % micro:
        raise UserError(
            f"--train_batch_size {settings.train_batch_size} is not a multiple of --micro_train_batch_size "
            f"{micro} times {processes} process(es). Choose sizes that divide."
        )
    report_to = _report_to(settings.report_to)
    on_gpu = torch.cuda.is_available()
    try:
        args = TrainingArguments(
            output_dir=str(Path(save_path) / CHECKPOINTS),
            per_device_train_batch_size=micro,
            gradient_accumulation_steps=share // micro,
            learning_rate=settings.learning_rate,
            num_train_epochs=settings.max_epochs,
            bf16=settings.bf16,
            **({"gradient_checkpointing": True} if settings.gradient_checkpointing else {}),
            deepspeed=settings.deepspeed,
            lr_scheduler_type=settings.lr_scheduler,
            warmup_steps=settings.warmup_ratio,
            weight_decay=settings.weight_decay,
            max_grad_norm=settings.max_grad_norm,
            seed=settings.seed,
            data_seed=settings.seed,
            save_steps=settings.save_steps,
            save_total_limit=1,
            eval_strategy="steps" if evaluate else "no",
            eval_steps=settings.save_steps,
            load_best_model_at_end=settings.keep == "best",
            metric_for_best_model="eval_loss" if evaluate else None,
            greater_is_better=False if evaluate else None,
            logging_steps=settings.logging_steps,
            report_to=report_to,
            remove_unused_columns=False,
            use_cpu=not on_gpu,
            dataloader_pin_memory=on_gpu,
            logging_nan_inf_filter=False,
            ddp_find_unused_parameters=False,
        )
    except (ValueError, ImportError) as error:
        raise UserError(f"the training settings do not work: {error}") from error
    if settings.deepspeed:
        import deepspeed

        deepspeed.init_distributed()  # ZeRO-3 splits weights while they load, before the Trainer starts DeepSpeed
    return args


def _check(settings: LoopSettings, evaluate: bool) -> None:
    """Raises UserError naming the flag whose value can train nothing."""
    at_least_one = ("max_epochs", "train_batch_size", "micro_train_batch_size", "save_steps", "logging_steps")
    for name in (*at_least_one, "pairs_together", "lora_rank"):
        value = getattr(settings, name)
        if value is not None and value < 1:
            raise UserError(f"--{name} is {value}; it must be at least 1.")
    for name in ("learning_rate", "lora_alpha"):
        value = getattr(settings, name)
        if value is not None and value <= 0:
            raise UserError(f"--{name} is {value}; it must be above 0.")
    if settings.lora_alpha is not None and not settings.lora_rank:
        raise UserError("--lora_alpha is for an adapter: give --lora_rank, or leave it out.")
    if settings.keep not in KEEP:
        raise UserError(f"--keep is {settings.keep!r}; it must be last or best.")
    if settings.keep == "best" and not evaluate:
        raise UserError("--keep best needs tasks to evaluate on: give --eval_fraction, for example 0.1.")
    if not 0 <= settings.warmup_ratio < 1:
        raise UserError(f"--warmup_ratio is {settings.warmup_ratio}; it must be at least 0 and below 1.")
    for name, value in {"weight_decay": settings.weight_decay, "max_norm": settings.max_grad_norm}.items():
        if value < 0:
            raise UserError(f"--{name} is {value}; it must not be negative.")


def _report_to(names: str) -> list[str]:
    """The loggers of a list with commas; none for "none". Raises UserError for one that is not installed."""
    wanted = [name.strip() for name in names.split(",") if name.strip() not in ("", "none")]
    installed = get_available_reporting_integrations()
    for name in wanted:
        if name not in installed:
            raise UserError(
                f"--report_to {name} is not known or not installed. Known here: {', '.join(['none', *installed])}."
            )
    return wanted


def _require_deepspeed(config: str) -> None:
    try:
        import deepspeed  # noqa: F401
    except ImportError as error:
        raise UserError(
            "--zero_stage needs DeepSpeed: pip install deepspeed. Without --zero_stage plain torch trains."
        ) from error
    if not Path(config).is_file():
        raise UserError(f"the DeepSpeed configuration {config} does not exist.")
