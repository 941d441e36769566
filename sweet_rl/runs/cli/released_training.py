"""The command lines of the release's train_dpo, whose parameters were those of another trainer (released.py)."""

from __future__ import annotations

import importlib.util

from sweet_rl.runs.cli.released import CommandLine, Released
from sweet_rl.runs.cli.values import is_bool_word
from sweet_rl.runs.errors import UserError

WANDB = {
    "wandb_org": "WANDB_ENTITY",
    "wandb_group": "WANDB_RUN_GROUP",
    "wandb_project": "WANDB_PROJECT",
    "wandb_run_name": "WANDB_NAME",
}
"""train_dpo's parameters -> the variables that wandb reads."""
FIELDS = "name the fields of the file prompt, chosen and rejected"
IMPOSSIBLE = {
    "eval_steps": (
        ("-1", "0"),
        "held-out tasks are evaluated at every checkpoint, so give --eval_fraction 0.1 --save_steps N",
    ),
    "aux_loss_coef": (("0", "0.0"), "there is no loss that balances a mixture of experts, so leave it out"),
    "ring_attn_size": (("1",), "for long texts use --gradient_checkpointing, --zero_stage 3 or --max_len"),
    "dataset_probs": (("1", "1.0", "none"), "join the files into one --dataset, each as often as it should be read"),
    "prompt_key": (("prompt", "none"), FIELDS),
    "chosen_key": (("chosen",), FIELDS),
    "rejected_key": (("rejected",), FIELDS),
    "apply_chat_template": (("false",), "rows hold texts; evaluate_code.py --tokenizer MODEL writes such pairs"),
    "input_template": (("none",), "write it into the 'prompt' of each row"),
}
"""train_dpo's parameters -> the values that change nothing, and what to use instead of any other."""
ONE_CHECKPOINT = "the last checkpoint is kept in --save_path until the training has ended"
DEEPSPEED = "it changes no result; configs/deepspeed/zero*.json holds DeepSpeed's own settings"


def _train(line: CommandLine) -> None:
    for name, (harmless, use) in IMPOSSIBLE.items():
        if name in line.given:
            value = line.given.pop(name)
            if (value or "").lower() not in harmless:
                raise UserError(f"--{name}{'' if value is None else ' ' + value} is not possible here: {use}.")
    if "," in (line.given.get("dataset") or ""):
        raise UserError(f"--dataset {line.given['dataset']}: join the files into one (cat) and give that.")
    if line.given.get("lora_rank") == "0":
        for name in ("lora_rank", "lora_alpha", "lora_dropout", "target_modules"):
            line.not_needed(name, "without an adapter all weights are trained")
    _train_loggers(line)


def _train_loggers(line: CommandLine) -> None:
    named = {name: line.given.pop(name, None) for name in WANDB}
    loggers = []
    if "use_wandb" in line.given:
        key = line.given.pop("use_wandb")
        if key is not None and not is_bool_word(key):
            line.environment["WANDB_API_KEY"] = key
        if importlib.util.find_spec("wandb") is None:
            line.lines.append(
                "--use_wandb: the package wandb is not installed (pip install wandb), so the figures are only in "
                "training_log.jsonl in --save_path"
            )
        else:
            loggers.append("wandb")
            line.environment |= {WANDB[name]: value for name, value in named.items() if value}
    if "use_tensorboard" in line.given:
        del line.given["use_tensorboard"]
        loggers.append("tensorboard")
        line.lines.append("--use_tensorboard: the figures are in the folder tensorboard of --save_path")
    if loggers:
        line.from_release = True
        line.given.setdefault("report_to", ",".join(loggers))


TRAIN_DPO = Released(
    names={"lr_warmup_ratio": "warmup_ratio", "l2": "weight_decay"},
    not_needed={
        "ckpt_path": ONE_CHECKPOINT,
        "max_ckpt_num": ONE_CHECKPOINT,
        "max_ckpt_mem": ONE_CHECKPOINT,
        "load_checkpoint": "the same command continues a training that was stopped",
        "disable_fast_tokenizer": "the tokenizer of --pretrain is used as it is saved",
        "local_rank": "the launcher sets LOCAL_RANK",
        "ref_offload": "log-probs of the reference model are computed once, before the training",
        "zpg": DEEPSPEED,
        "grad_accum_dtype": DEEPSPEED,
        "overlap_comm": DEEPSPEED,
        "flash_attn": "the attention is chosen here, for texts that share their prompts",
        "gradient_checkpointing_use_reentrant": "--gradient_checkpointing gives the same result in either way",
        "packing_samples": "texts are always laid out without padding",
        "train_split": "all of --dataset is trained on, but what --eval_fraction holds out",
        "eval_split": "--eval_fraction holds tasks of --dataset out",
    },
    switches=(
        "load_checkpoint",
        "disable_fast_tokenizer",
        "flash_attn",
        "overlap_comm",
        "packing_samples",
        "gradient_checkpointing_use_reentrant",
        "apply_chat_template",
        "ref_offload",
    ),
    several=("adam_betas", "target_modules"),
    defaults={
        "learning_rate": 1e-5,
        "train_batch_size": 128,
        "max_len": 512,
        "zero_stage": 2,
        "seed": 42,
    },
    adapt=_train,
)
