"""The command lines of the authors' release, as the scripts here take them. A facade: nothing else knows them.

Each script of the release has one table. It says which parameters have another name here, which are not needed (they
are accepted and answered by one line), and what is done about the others; the table of train_dpo is in
released_training.py. See docs/coming_from_the_release.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweet_rl.runs.cli.values import coerce
from sweet_rl.runs.errors import UserError

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
