"""The command lines of the authors' release, as the scripts here take them (docs/files.md)."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sweet_rl.runs.errors import UserError

AGENT = "meta-llama/Llama-3.1-8B-Instruct"
HUMANS = {"code": "meta-llama/Llama-3.1-70B-Instruct", "html": "Qwen/Qwen2-VL-72B-Instruct"}
REMOVED = {
    "sharding": "give --zero_stage 2 or 3 (pip install -e '.[deepspeed]'), which divides a model among processes.",
    "optim": "the optimiser is AdamW. Where its state does not fit: --zero_stage 2 --adam_offload, or --lora_rank 16.",
    "save_epochs": "checkpoints are written every --save_minutes, and every --save_steps if it is given.",
    "keep": "the last weights are kept; --max_steps ends earlier.",
    "lr_scheduler": "the schedule is a cosine after a warm-up; --min_learning_rate_ratio 1 makes it constant.",
    "too_long": "examples longer than --max_len are left out and counted.",
    "max_calls": "--limit bounds the dialogues, and --estimate prints how many calls they make at most.",
    "serve": "a viewer writes a page; --limit says of how many records.",
    "credit_path": "score_turns.py writes the credit into the dialogues, and viewers show it.",
}
"""Flags of earlier versions of this package, and what to do instead."""

Text = dict[str, str]


@dataclass(frozen=True)
class Released:
    """One script of the release. A flag that stands alone has the text "True" or "False".

    Attributes:
        order: Parameters in the order in which they may be given by position.
        names: {parameter: our flag}, if they differ.
        ignored: Parameters that are accepted and have no effect here.
        refused: {parameter: (values that are harmless, advice for other values)}.
        several: Parameters that take several words.
        adapt: Changes {flag: text} if that depends on values, and returns lines to print.
    """

    order: Sequence[str] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    ignored: Sequence[str] = ()
    refused: Mapping[str, tuple[Sequence[str], str]] = field(default_factory=dict)
    several: Sequence[str] = ()
    adapt: Callable[[Text], list[str]] = lambda given: []

    def translate(self, given: Text) -> Text:
        """The released command line as {our flag: text}; one process prints what was left out or added.

        Raises:
            UserError: A parameter cannot be honoured; the message names what to use.
        """
        given = dict(given)
        without_effect = [name for name in self.ignored if given.pop(name, None) is not None]
        lines = [f"accepted, without effect here: --{' --'.join(without_effect)}"] if without_effect else []
        for name, (harmless, remedy) in self.refused.items():
            value = given.pop(name, None)
            if value is not None and value.lower() not in harmless:
                raise UserError(f"--{name} {value} is not possible here: {remedy}.")
        lines += self.adapt(given)
        if os.environ.get("RANK", "0") == "0":
            for line in lines:
                print(line)
        return given


OURS = Released()
"""Of a script that the release does not have."""


def _fill(given: Text, name: str, value: str) -> list[str]:
    """Give a parameter the release's default, unless it is given or may stand in a --config."""
    if given.get(name, "auto") != "auto" or "config" in given:
        return []
    given[name] = value
    return [f"--{name}: {value}, as in the release"]


def _simulate(given: Text) -> list[str]:
    for name in ("user_prompt_path", "agent_prompt_path"):
        if given.get(name) == "auto":
            del given[name]
    if (port := given.pop("port", None)) is not None:
        given["hostname"] = ",".join(f"{host}:{port}" for host in given.get("hostname", "").split(","))
    if "hostname" not in given and given.get("env_model") != "auto":
        return []  # the release always has a server; without one, a missing model is an error
    lines = _fill(given, "agent_model", AGENT) if "hostname" in given else []
    human = HUMANS.get(given.get("task_type", "code"))
    return lines + (_fill(given, "env_model", human) if human is not None else [])


def _sample(given: Text) -> list[str]:
    return [] if "model_id" in given else _fill(given, "agent_model", AGENT)


def _rank(given: Text) -> list[str]:
    if given.pop("use_sum", "False").lower() == "true":
        given["normalize"] = "none"
    return []


def _train(given: Text) -> list[str]:
    if "," in given.get("dataset", ""):
        raise UserError(f"--dataset {given['dataset']}: join the files into one (cat) and give that.")
    if given.get("lora_rank") == "0":  # without an adapter all weights are trained
        for name in ("lora_rank", "lora_alpha", "lora_dropout", "target_modules"):
            given.pop(name, None)
    names = {variable: given.pop(name, None) for name, variable in WANDB.items()}
    lines, loggers = [], []
    if (key := given.pop("use_wandb", None)) is not None:
        if key not in ("True", "False"):
            os.environ["WANDB_API_KEY"] = key
            hidden = rf"(^|=){re.escape(key)}$"
            sys.argv[:] = [re.sub(hidden, r"\1***", word) for word in sys.argv]  # wandb and manifests record them
        if importlib.util.find_spec("wandb") is None:
            lines.append("--use_wandb: not installed (pip install wandb); the figures are in training_log.jsonl")
        else:
            loggers.append("wandb")
            os.environ.update({variable: name for variable, name in names.items() if name})
    if given.pop("use_tensorboard", None) is not None:
        loggers.append("tensorboard")
        lines.append("--use_tensorboard: the figures are in the folder tensorboard of --save_path")
    if loggers:
        given.setdefault("report_to", ",".join(loggers))
    return lines


FIELDS = "name the fields of the file prompt, chosen and rejected"
WANDB = {
    "wandb_org": "WANDB_ENTITY",
    "wandb_group": "WANDB_RUN_GROUP",
    "wandb_project": "WANDB_PROJECT",
    "wandb_run_name": "WANDB_NAME",
}
"""train_dpo's parameters -> the variables that wandb reads."""

SIMULATE = Released(
    order=tuple(
        "hostname input_path output_path user_prompt_path agent_prompt_path agent_model env_model batch_size num_tasks "
        "max_steps best_of_n train task_type port temperature temp_path to_continue".split()
    ),
    names={"max_steps": "max_turns"},
    ignored=("batch_size", "train", "temp_path", "to_continue"),
    adapt=_simulate,
)
EVALUATE_CODE = Released(
    order=("saved_path", "k", "preference_path", "ground_truth_preference_path"),
    names={"saved_path": "input_path"},
)
EVALUATE_HTML = Released(
    order=("saved_path", "k", "temp_path", "preference_path", "ground_truth_preference_path"),
    names={"saved_path": "input_path"},
    ignored=("temp_path",),
)
SAMPLE = Released(
    order=("input_path", "output_path", "agent_model", "temperature", "best_of_n", "data_fraction"),
    names={"agent_model": "model_id"},
    ignored=("task_type",),
    adapt=_sample,
)
RANK = Released(
    order=("input_path", "output_path", "model_id", "no_use_ground_truth", "use_sum", "save_steps"),
    names={"no_use_ground_truth": "no_prompt"},
    ignored=("save_steps",),
    adapt=_rank,
)
PAIRS = Released(
    order=("input_path", "output_path", "get_sft", "no_prompt", "num_pairs"),
    ignored=("no_prompt",),
)
FILTER = Released(
    order=("saved_path", "filtered_path", "temp_path"),
    names={"saved_path": "input_path", "filtered_path": "output_path"},
    ignored=("temp_path",),
)
VISUALIZE = Released(order=("saved_path",), names={"saved_path": "input_path"})
VISUALIZE_DESIGN = Released(
    order=("saved_path", "temp_path"), names={"saved_path": "input_path"}, ignored=("temp_path",)
)
TRAIN_DPO = Released(
    names={"lr_warmup_ratio": "warmup_ratio", "l2": "weight_decay"},
    ignored=tuple(
        "ckpt_path max_ckpt_num max_ckpt_mem load_checkpoint disable_fast_tokenizer local_rank ref_offload zpg "
        "grad_accum_dtype overlap_comm flash_attn gradient_checkpointing_use_reentrant packing_samples train_split "
        "eval_split eval_steps aux_loss_coef ring_attn_size".split()
    ),
    refused={
        "dataset_probs": (("1", "1.0", "none"), "join the files into one, each as often as it should be read"),
        "prompt_key": (("prompt", "none"), FIELDS),
        "chosen_key": (("chosen",), FIELDS),
        "rejected_key": (("rejected",), FIELDS),
        "apply_chat_template": (("false",), "rows hold texts; evaluate_code.py --tokenizer MODEL writes such pairs"),
        "input_template": (("none",), "write it into the 'prompt' of each row"),
    },
    several=("adam_betas", "target_modules"),
    adapt=_train,
)
