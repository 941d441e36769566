"""What every training has in common: settings, one `transformers.Trainer` run, resume, the saved model."""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import get_int_from_env
from transformers import Trainer, TrainingArguments
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from sweet_rl.chat import ChatFormat
from sweet_rl.errors import UserError
from sweet_rl.runs import DirectoryRun, directory_manifest
from sweet_rl.training.logps import completion_logps
from sweet_rl.training.order import EpochOrder

log = logging.getLogger(__name__)

CHECKPOINTS = "checkpoints"


@dataclass(frozen=True)
class LoopSettings:
    """How a model is trained, whatever the loss.

    train_batch_size: examples an optimiser step, over all processes. micro_train_batch_size: examples that
    go through the model at once in one process (None: its whole share). save_steps: steps between
    checkpoints. deepspeed: path of a DeepSpeed configuration, None for plain torch.
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

    # What may differ when a training is continued: it changes the pace, not what is learned.
    PACE = ("micro_train_batch_size", "gradient_checkpointing", "save_steps", "logging_steps", "report_to")

    def that_matter(self) -> dict[str, Any]:
        """What decides the weights that come out, for the manifest."""
        settings = {name: value for name, value in asdict(self).items() if name not in self.PACE}
        return settings | {"deepspeed": self.deepspeed and Path(self.deepspeed).stem}


def training_arguments(settings: LoopSettings, save_path: str | Path) -> TrainingArguments:
    """The Trainer's arguments. Raises UserError for sizes that do not divide or settings it refuses."""
    _check(settings)
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
            logging_steps=settings.logging_steps,
            report_to=settings.report_to,
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


def _check(settings: LoopSettings) -> None:
    """Raises UserError naming the flag whose value can train nothing."""
    at_least_one = ("max_epochs", "train_batch_size", "micro_train_batch_size", "save_steps", "logging_steps")
    for name in (*at_least_one, "pairs_together"):
        value = getattr(settings, name)
        if value is not None and value < 1:
            raise UserError(f"--{name} is {value}; it must be at least 1.")
    if settings.learning_rate <= 0:
        raise UserError(f"--learning_rate is {settings.learning_rate}; it must be above 0.")
    if not 0 <= settings.warmup_ratio < 1:
        raise UserError(f"--warmup_ratio is {settings.warmup_ratio}; it must be at least 0 and below 1.")
    for name, value in {"weight_decay": settings.weight_decay, "max_norm": settings.max_grad_norm}.items():
        if value < 0:
            raise UserError(f"--{name} is {value}; it must not be negative.")


def _require_deepspeed(config: str) -> None:
    try:
        import deepspeed  # noqa: F401
    except ImportError as error:
        raise UserError(
            "--zero_stage needs DeepSpeed: pip install deepspeed. Without --zero_stage plain torch trains."
        ) from error
    if not Path(config).is_file():
        raise UserError(f"the DeepSpeed configuration {config} does not exist.")


def open_model_directory(
    save_path: str, settings: dict, inputs: list[str | None], overwrite: bool, args: TrainingArguments
) -> DirectoryRun | None:
    """The model directory, opened by the first process; None in the others. Names on a hub are settings,
    not inputs.
    """
    if args.process_index != 0:
        return None
    return directory_manifest(save_path, settings, inputs, overwrite)


def is_complete(run: DirectoryRun | None, args: TrainingArguments) -> bool:
    """Whether the run was finished before, told by the first process to all."""
    answer = [run is not None and run.complete]
    if args.world_size > 1:
        torch.distributed.broadcast_object_list(answer)
    return answer[0]


class GroupedTrainer(Trainer):
    """A Trainer whose examples are indices, ordered by `EpochOrder`, and whose losses are sums over the
    step's items.

    A subclass collates indices into a batch, says how many items a batch has (`items`: pairs, or
    tokens), what the model gives for it (`outputs`: log-probs, or values) and computes the sum of the items' losses
    with what is worth logging (`losses`). A step's loss is the mean over all its items, however they fall into
    micro-batches and processes.
    """

    def __init__(
        self, model, args: TrainingArguments, examples: int, groups, costs, collate, chat: ChatFormat
    ):
        self.groups, self.costs, self.chat = groups, costs, chat
        self.sums: dict[str, torch.Tensor] = {}
        # No processing_class: the Trainer would write the tokenizer's EOS over those of the generation
        # config.
        super().__init__(model=model, args=args, train_dataset=_Indices(examples), data_collator=collate)
        self.loss_is_scaled_for_ga = True
        if args.disable_tqdm:
            self.remove_callback(PrinterCallback)
        self.remove_callback(ProgressCallback)
        self.add_callback(_Progress)

    def items(self, batch: dict) -> int:
        raise NotImplementedError

    def outputs(self, model, batch: dict) -> torch.Tensor:
        return completion_logps(model, batch)

    def losses(self, outputs: torch.Tensor, batch: dict) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        raise NotImplementedError

    def _get_train_sampler(self, train_dataset=None):
        batch_size = self.args.per_device_train_batch_size * self.args.gradient_accumulation_steps
        return EpochOrder(
            self.groups, self.costs, batch_size * self.args.world_size, self.args.seed,
            epoch=lambda: int(self.state.epoch or 0),
        )  # fmt: skip

    def _get_num_items_in_batch(self, batch_samples: list, device: torch.device) -> torch.Tensor:
        count = torch.tensor(float(sum(self.items(batch) for batch in batch_samples)), device=device)
        return self.accelerator.gather(count).sum() if self.args.world_size > 1 else count

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss, metrics = self.losses(self.outputs(model, inputs), inputs)
        for name, value in metrics.items():
            self.sums[name] = self.sums.get(name, 0) + value.detach()
        return loss * self.args.world_size / num_items_in_batch  # gradients are averaged over processes

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Adds the means, over the items since the last line, of what `losses` gave."""
        if self.sums and "loss" in logs:
            names = sorted(self.sums)
            totals = torch.stack([self.sums[name].float() for name in names])
            if self.args.world_size > 1:
                totals = self.accelerator.gather(totals[None]).sum(0)
            totals = dict(zip(names, totals.tolist(), strict=True))
            items = totals.pop("items")
            logs |= {name: total / items for name, total in totals.items()}
            self.sums = {}
        super().log(logs, start_time)

    def floating_point_ops(self, inputs) -> int:
        return 0  # a shared prompt has no honest estimate by the Trainer's formula


class _Indices(torch.utils.data.Dataset):
    def __init__(self, length: int):
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        return index


class _Progress(ProgressCallback):
    """The progress bar with the last figures beside it, instead of a printed dictionary every few steps.

    The last step is logged too, so that a short training has figures at all.
    """

    def on_step_end(self, args, state, control, **kwargs):
        super().on_step_end(args, state, control, **kwargs)
        if state.global_step >= state.max_steps:
            control.should_log = True

    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_world_process_zero and self.training_bar is not None and "loss" in (logs or {}):
            shown = ("loss", "margin", "accuracy")
            self.training_bar.set_postfix({k: f"{logs[k]:.4g}" for k in shown if k in logs}, refresh=False)


def whole_checkpoint(folder: Path) -> str | None:
    """The newest checkpoint that was written to its end; torn ones are removed."""
    whole = []
    for path in folder.glob("checkpoint-*"):
        try:
            json.loads((path / "trainer_state.json").read_text())  # the Trainer writes it last
            whole.append(path)
        except (OSError, ValueError):
            shutil.rmtree(path)
    return str(max(whole, key=lambda path: int(path.name.split("-")[1]))) if whole else None


def fit(trainer: GroupedTrainer, save_path: str | Path, run: DirectoryRun | None, summary: dict) -> dict:
    """Trains from the last checkpoint or from the start, saves model and tokenizer, and finishes the run.

    Writes `training_log.jsonl` (one line a logged step). Returns the summary with the last logged figures.
    """
    save_path = Path(save_path)
    checkpoint = whole_checkpoint(save_path / CHECKPOINTS)
    if checkpoint:
        log.warning("continuing from %s", checkpoint)
    result = trainer.train(resume_from_checkpoint=checkpoint)
    trainer.save_model(str(save_path))
    history = [line for line in trainer.state.log_history if "loss" in line]
    figures = {
        k: v
        for k, v in (history[-1] if history else {}).items()
        if k not in ("epoch", "step", "learning_rate")
    }
    summary = {
        **summary,
        "steps": trainer.state.global_step,
        "seconds": round(result.metrics["train_runtime"], 1),
        "train_loss": result.metrics["train_loss"],
        "last": figures,
    }
    if run is not None:
        trainer.chat.tokenizer.save_pretrained(str(save_path))
        with open(save_path / "training_log.jsonl", "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in history)
        (save_path / "training_args.bin").unlink(missing_ok=True)  # a pickle with paths of this machine
        run.finish(summary)
        shutil.rmtree(save_path / CHECKPOINTS, ignore_errors=True)
    return summary
