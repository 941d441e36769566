"""`transformers.TrainingArguments` from the settings of a training, checked before a model is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from accelerate.utils import get_int_from_env
from transformers import TrainingArguments
from transformers.integrations import get_available_reporting_integrations

from sweet_rl.models.weights import require_bitsandbytes
from sweet_rl.runs.errors import UserError
from sweet_rl.training.deepspeed import deepspeed_config, name_lone_process
from sweet_rl.training.lora import require_peft
from sweet_rl.training.settings import TrainingSettings

CHECKPOINTS = "checkpoints"
NEVER = 10**9  # steps: CheckpointSchedule says when checkpoints are written
# transformers 5.23 renamed it, and warns about the old name.
_RENAMED = hasattr(TrainingArguments, "activation_checkpointing")
ACTIVATION_CHECKPOINTING = "activation_checkpointing" if _RENAMED else "gradient_checkpointing"


def weights_dtype(settings: TrainingSettings) -> torch.dtype:
    """The dtype in which weights are loaded.

    DeepSpeed keeps a float32 copy of bfloat16 weights, and an adapter is float32 beside them; without either the
    weights themselves are float32.
    """
    reduced = settings.bf16 and (settings.zero_stage is not None or settings.lora_rank)
    return torch.bfloat16 if reduced else torch.float32


def divided_batch(settings: TrainingSettings, processes: int) -> tuple[int, int]:
    """The examples of a micro-batch, and the micro-batches of a step, of each process.

    Raises UserError if the batch cannot be divided like this.
    """
    share, rest = divmod(settings.train_batch_size, processes)
    micro = min(settings.micro_train_batch_size or share, share)
    if rest or share < 1 or share % micro:
        raise UserError(
            f"--train_batch_size {settings.train_batch_size} is not a multiple of --micro_train_batch_size "
            f"{settings.micro_train_batch_size or 1} times {processes} process(es). Choose sizes that divide."
        )
    return micro, share // micro


def training_arguments(settings: TrainingSettings, save_path: str | Path, evaluate: bool = False) -> TrainingArguments:
    """The arguments of the Trainer.

    Args:
        settings: Settings of the training.
        save_path: Folder of the model; checkpoints are written below it.
        evaluate: Whether there are held-out tasks.

    Raises:
        UserError: Sizes that do not divide, settings that the Trainer refuses, or a package that is not installed.
    """
    if settings.keep == "best" and not evaluate:
        raise UserError("--keep best needs tasks to evaluate on: give --eval_fraction, for example 0.1.")
    if settings.lora_rank:
        require_peft()
    if settings.load_in_4bit:
        require_bitsandbytes("--load_in_4bit")
    # The sizes must be known before the arguments are made: DeepSpeed's configuration is filled in from them then.
    micro, accumulated = divided_batch(settings, get_int_from_env(("WORLD_SIZE",), 1))
    on_gpu = torch.cuda.is_available()
    deepspeed = deepspeed_config(settings, accumulates=accumulated > 1)
    if deepspeed:
        name_lone_process()
    report_to = _report_to(settings.report_to)
    checkpointing: dict[str, Any] = {ACTIVATION_CHECKPOINTING: True} if settings.gradient_checkpointing else {}
    try:
        args = TrainingArguments(
            output_dir=str(Path(save_path) / CHECKPOINTS),
            per_device_train_batch_size=micro,
            gradient_accumulation_steps=accumulated,
            learning_rate=settings.peak_learning_rate,
            adam_beta1=settings.adam_betas[0],
            adam_beta2=settings.adam_betas[1],
            **_optimizer(settings),
            num_train_epochs=settings.max_epochs,
            bf16=settings.bf16,
            **checkpointing,
            deepspeed=deepspeed,
            **_schedule(settings),
            warmup_steps=settings.warmup_ratio,
            weight_decay=settings.weight_decay,
            max_grad_norm=settings.max_norm,
            seed=settings.seed,
            data_seed=settings.seed,
            save_steps=NEVER,
            eval_strategy="steps" if evaluate else "no",
            eval_steps=NEVER,
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
    if args.n_gpu > 1:
        print(f"one of {args.n_gpu} GPUs is used; torchrun --nproc_per_node {args.n_gpu} uses all of them")
        args._n_gpu = 1  # transformers would use DataParallel, which divides the rows of a batch
    if deepspeed:
        from deepspeed import init_distributed

        init_distributed()  # ZeRO-3 splits weights while they load, before the Trainer starts DeepSpeed
    return args


def _schedule(settings: TrainingSettings) -> dict[str, Any]:
    """The learning rate's schedule. A cosine ends at `min_learning_rate_ratio` of the peak, others as they are."""
    if settings.lr_scheduler not in ("cosine", "cosine_with_min_lr"):
        return {"lr_scheduler_type": settings.lr_scheduler}
    ratio = {"min_lr_rate": settings.min_learning_rate_ratio}
    return {"lr_scheduler_type": "cosine_with_min_lr", "lr_scheduler_kwargs": ratio}


def _optimizer(settings: TrainingSettings) -> dict[str, Any]:
    """The Trainer's optimiser, unless it is its default. Raises UserError if bitsandbytes is missing."""
    if settings.optim == "adamw":
        return {}
    require_bitsandbytes(f"--optim {settings.optim}")
    return {"optim": "adamw_bnb_8bit"}


def _report_to(names: str) -> list[str]:
    """The loggers in a list with commas; none for "none". Raises UserError for one that is not installed."""
    wanted = [name.strip() for name in names.split(",") if name.strip() not in ("", "none")]
    installed = get_available_reporting_integrations()
    for name in wanted:
        if name not in installed:
            raise UserError(
                f"--report_to {name} is not known or not installed. Known here: {', '.join(['none', *installed])}."
            )
    return wanted
