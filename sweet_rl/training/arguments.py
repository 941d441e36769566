"""`transformers.TrainingArguments` from the settings of a training, checked before a model is loaded."""

from __future__ import annotations

from pathlib import Path

import torch
from accelerate.utils import get_int_from_env
from transformers import TrainingArguments
from transformers.integrations import get_available_reporting_integrations

from sweet_rl.errors import UserError
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


def training_arguments(settings: TrainingSettings, save_path: str | Path, evaluate: bool = False) -> TrainingArguments:
    """The arguments of the Trainer.

    Args:
        settings: of the training.
        save_path: of the model; checkpoints are written below it.
        evaluate: whether there are held-out tasks.

    Raises:
        UserError: sizes that do not divide, settings that the Trainer refuses, or a package that is not installed.
    """
    if settings.keep == "best" and not evaluate:
        raise UserError("--keep best needs tasks to evaluate on: give --eval_fraction, for example 0.1.")
    if settings.lora_rank:
        require_peft()
    # The sizes must be known before the arguments are made: DeepSpeed's configuration is filled in from them then.
    processes = get_int_from_env(("WORLD_SIZE",), 1)
    share, rest = divmod(settings.train_batch_size, processes)
    micro = settings.micro_train_batch_size or share
    if rest or share < 1 or share % micro:
        raise UserError(
            f"--train_batch_size {settings.train_batch_size} is not a multiple of --micro_train_batch_size "
            f"{micro} times {processes} process(es). Choose sizes that divide."
        )
    on_gpu = torch.cuda.is_available()
    deepspeed = deepspeed_config(settings)
    if deepspeed:
        name_lone_process()
    report_to = _report_to(settings.report_to)
    try:
        args = TrainingArguments(
            output_dir=str(Path(save_path) / CHECKPOINTS),
            per_device_train_batch_size=micro,
            gradient_accumulation_steps=share // micro,
            learning_rate=settings.learning_rate,
            num_train_epochs=settings.max_epochs,
            bf16=settings.bf16,
            **({ACTIVATION_CHECKPOINTING: True} if settings.gradient_checkpointing else {}),
            deepspeed=deepspeed,
            lr_scheduler_type=settings.lr_scheduler,
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
