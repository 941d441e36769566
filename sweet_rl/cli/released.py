"""The command lines of the authors' release, as the scripts here take them. A facade: nothing else knows them.

Each script of the release has one table. It says which parameters have another name here, which are not needed (they
are accepted and answered by one line), and what is done about the others. See docs/coming_from_the_release.md.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweet_rl.cli.values import coerce, is_bool_word
from sweet_rl.errors import UserError

AGENT = "meta-llama/Llama-3.1-8B-Instruct"
HUMANS = {"code": "meta-llama/Llama-3.1-70B-Instruct", "html": "Qwen/Qwen2-VL-72B-Instruct"}
PICTURES = "pictures of pages need no folder"


@dataclass
class CommandLine:
    """A command line that is being translated.

    Attributes:
        given: Text by parameter, in order; None for a flag alone.
        lines: Lines that are printed about it.
        environment: Variables that are set for the script.
        from_release: Whether it has something that only the release knows.
    """

    given: dict[str, str | None]
    lines: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    from_release: bool = False

    def not_needed(self, name: str, why: str) -> None:
        """Leave a parameter out, and say why."""
        if name in self.given:
            del self.given[name]
            self.lines.append(f"--{name} is not needed: {why}")
            self.from_release = True

    def switched_on(self, name: str) -> bool:
        """Remove a switch; whether it was given and is true."""
        if name not in self.given:
            return False
        self.from_release = True
        value = self.given.pop(name)
        return value is None or coerce(value, bool, f"--{name}")

    def fill(self, name: str, value: str) -> None:
        """Give a parameter the release's default, unless it is given or may stand in a --config."""
        if self.given.get(name, "auto") == "auto" and "config" not in self.given:
            self.given[name] = value
            self.lines.append(f"--{name}: {value}, as in the release")


@dataclass(frozen=True)
class Released:
    """One script of the release.

    Attributes:
        order: Parameters in the order in which they may be given by position.
        names: Flag here by parameter there, if they differ.
        not_needed: Reason, by parameter, why it is accepted and left out.
        switches: Parameters that may stand without a value.
        several: Parameters that take several words.
        defaults: Default there by flag here, if they differ.
        adapt: Function that handles what depends on values.
    """

    order: Sequence[str] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    not_needed: Mapping[str, str] = field(default_factory=dict)
    switches: Sequence[str] = ()
    several: Sequence[str] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    adapt: Callable[[CommandLine], None] | None = None

    def translate(self, given: Mapping[str, str | None], values: Sequence[str]) -> CommandLine:
        """Return the parameters of a command line without those that have no meaning here.

        Args:
            given: Text by parameter; None for a flag alone.
            values: Values given by position, for the parameters of `order` that are not given by name.

        Raises:
            UserError: A value too many, or a parameter that cannot be honoured; the message names what to use.
        """
        line = CommandLine(dict(given), from_release=bool(values))
        for name in self.switches:
            if f"no{name}" in given:
                del line.given[f"no{name}"]
                line.given[name] = "False"
        there = {self.names.get(name, name) for name in line.given}
        free = [name for name in self.order if self.names.get(name, name) not in there]
        if len(values) > len(free):
            order = f" By position it takes {', '.join(self.order)}." if self.order else ""
            raise UserError(f"{values[len(free)]!r} has no flag before it.{order} Every value needs one: --name value.")
        line.given |= dict(zip(free, values, strict=False))
        line.from_release |= any(name in self.names for name in line.given)
        for name, why in self.not_needed.items():
            line.not_needed(name, why)
        if self.adapt is not None:
            self.adapt(line)
        named = {self.names.get(name, name) for name in line.given}
        other = [f"--{name} (there {value})" for name, value in self.defaults.items() if name not in named]
        if line.from_release and other and "config" not in line.given:
            line.lines.append(f"not given, and other defaults than the release's: {', '.join(other)}")
        return line


def _simulate(line: CommandLine) -> None:
    given = line.given
    for name in ("user_prompt_path", "agent_prompt_path"):
        if given.get(name) == "auto":
            del given[name]
    port = given.pop("port", None)
    if port is not None:
        line.from_release = True
        hosts = (given.get("hostname") or "").split(",")
        for host in hosts:
            if not host or re.search("[:/@]", host):
                raise UserError(
                    f"--port {port} goes with the bare name of a host; --hostname is {host or 'not given'}. Give "
                    "--hostname HOST --port PORT, or --hostname HOST:PORT alone."
                )
        given["hostname"] = ",".join(f"{host}:{port}" for host in hosts)
    if "hostname" in given:  # the release always has one; without it, a missing model is an error
        line.fill("agent_model", AGENT)
    human = HUMANS.get(given.get("task_type") or "code")
    if human is not None and ("hostname" in given or given.get("env_model") == "auto"):
        line.fill("env_model", human)


def _sample(line: CommandLine) -> None:
    if "model_id" not in line.given:
        line.fill("agent_model", AGENT)


def _rank(line: CommandLine) -> None:
    if line.switched_on("use_sum"):
        line.given["normalize"] = "none"


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


SIMULATE = Released(
    order=(
        "hostname",
        "input_path",
        "output_path",
        "user_prompt_path",
        "agent_prompt_path",
        "agent_model",
        "env_model",
        "batch_size",
        "num_tasks",
        "max_steps",
        "best_of_n",
        "train",
        "task_type",
        "port",
        "temperature",
        "temp_path",
        "to_continue",
    ),
    names={"max_steps": "max_turns"},
    not_needed={
        "batch_size": "each dialogue runs at its own pace",
        "train": "the tasks are those of --input_path",
        "temp_path": PICTURES,
        "to_continue": "a run that was stopped is continued in any case",
    },
    switches=("train", "to_continue"),
    defaults={"num_tasks": 1000},
    adapt=_simulate,
)
EVALUATE_CODE = Released(
    order=("saved_path", "k", "preference_path", "ground_truth_preference_path"),
    names={"saved_path": "input_path"},
)
EVALUATE_HTML = Released(
    order=("saved_path", "k", "temp_path", "preference_path", "ground_truth_preference_path"),
    names={"saved_path": "input_path"},
    not_needed={"temp_path": PICTURES},
)
SAMPLE = Released(
    order=("input_path", "output_path", "agent_model", "temperature", "best_of_n", "data_fraction"),
    names={"agent_model": "model_id"},
    not_needed={"task_type": "dialogues of all domains are sampled alike"},
    adapt=_sample,
)
RANK = Released(
    order=("input_path", "output_path", "model_id", "no_use_ground_truth", "use_sum", "save_steps"),
    names={"no_use_ground_truth": "no_prompt"},
    not_needed={"save_steps": "each turn is written when it is ranked"},
    switches=("no_use_ground_truth", "use_sum"),
    adapt=_rank,
)
PAIRS = Released(
    order=("input_path", "output_path", "get_sft", "no_prompt", "num_pairs"),
    not_needed={"no_prompt": "a pair holds its prompt, and what is trained is marked"},
    switches=("get_sft", "no_prompt"),
    defaults={"num_pairs": 8},
)
FILTER = Released(
    order=("saved_path", "filtered_path", "temp_path"),
    names={"saved_path": "input_path", "filtered_path": "output_path"},
    not_needed={"temp_path": PICTURES},
)
VISUALIZE = Released(order=("saved_path",), names={"saved_path": "input_path"})
VISUALIZE_DESIGN = Released(
    order=("saved_path", "temp_path"), names={"saved_path": "input_path"}, not_needed={"temp_path": PICTURES}
)
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
