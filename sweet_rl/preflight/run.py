"""All checks of a run, in their order; a line is printed when it is found."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweet_rl.cli import build, parse_flags, read_config
from sweet_rl.errors import NothingMade, UserError
from sweet_rl.models.settings import ModelSettings
from sweet_rl.preflight.finding import Finding, failed
from sweet_rl.training.settings import DataSettings, TrainingSettings

if TYPE_CHECKING:
    from sweet_rl.preflight.gpus import Gpus
    from sweet_rl.preflight.models import Model
    from sweet_rl.preflight.sizes import PlannedTraining


@dataclass(frozen=True)
class PreflightSettings:
    """What the run will do.

    Attributes:
        agent_model: Agent, from which the trainings start; folder or hub name.
        critic_model: Model from which a critic that sees pictures starts.
        env_model: The simulated human.
        hostname: Server of the human, which must answer; several separated by commas.
        api_key_variable: Environment variable that holds the key of the human's server.
        human_gpus: GPUs on which the run itself will start a server of the human, as CUDA_VISIBLE_DEVICES names them.
        human_share: Share of the memory of these GPUs that the server takes; the agent then plays beside it.
        output_dir: Folder of the run.
        trainings: Config files of the trainings, separated by commas.
        train_flags: Flags that all trainings get beside their config: --train_flags="--lora_rank 16".
        launch: Launcher of a training, for example "torchrun --nproc_per_node 8".
        at_once: Number of trainings that run at the same time, each with processes of its own.
        cpu: Run on the CPU on purpose: GPUs are not looked at.
    """

    agent_model: str
    critic_model: str | None = None
    env_model: str | None = None
    hostname: str | None = None
    api_key_variable: str | None = None
    human_gpus: str | None = None
    human_share: float | None = None
    output_dir: str = "runs"
    trainings: tuple[str, ...] = ()
    train_flags: str = ""
    launch: str = "python"
    at_once: int = 1
    cpu: bool = False


def preflight(settings: PreflightSettings) -> None:
    """Print a line for each thing that was checked.

    Raises:
        NothingMade: Something failed, so that the run would too.
        UserError: A setting is wrong.
    """
    count = 0
    for finding in findings(settings):
        print(finding, flush=True)
        count += finding.state == "FAILED"
    if count:
        raise NothingMade(f"{count} of the checks failed (see above), and nothing was started.")


def findings(settings: PreflightSettings) -> Iterator[Finding]:
    """What all checks find, in their order. Raises UserError for a setting that is wrong."""
    configs = {path: _training_settings(path, settings.train_flags) for path in settings.trainings}
    plans = [how for how, _, _ in configs.values()]
    needed = {"deepspeed" for how in plans if how.zero_stage is not None} | {"peft" for how in plans if how.lora_rank}

    from sweet_rl.preflight.versions import check_compiler, check_versions, installed

    if not installed("torch") or not installed("transformers"):
        yield from check_versions(needed, on_gpu=False)
        return
    from sweet_rl.preflight.gpus import Gpus, check_all_reduce, check_attention, check_count, find_gpus
    from sweet_rl.preflight.models import check_human, check_model

    gpus, found = (Gpus(), []) if settings.cpu else find_gpus()
    broken = any(finding.state == "FAILED" for finding in found)
    yield from _all(check_versions(needed, on_gpu=bool(gpus) or broken))
    yield from found

    models: dict[str, Model] = {}
    for name in _names(settings):
        model, finding = check_model(name)
        models |= {name: model} if model else {}
        yield finding
    trained = [models[name] for name in (settings.agent_model, settings.critic_model) if name in models]
    each, processes = processes_of(settings.launch, len(gpus))
    if not settings.cpu and not broken:
        yield from check_count(
            gpus, each * settings.at_once, max((model.shape.parameters for model in trained), default=0)
        )
    yield check_compiler(needed=bool(gpus) or "deepspeed" in needed)
    ways = [how.attention for how in plans if how.attention]
    if trained:
        yield check_attention(gpus, trained[0].heads, ways[0] if ways else None)
    if processes > 1 and (not gpus or len(gpus) > 1):
        yield check_all_reduce(gpus)
    if settings.env_model and settings.hostname:
        yield check_human(
            settings.env_model, ModelSettings(hostname=settings.hostname, api_key_variable=settings.api_key_variable)
        )
    yield from _all(_sizes(settings, configs, models, gpus, processes))


def _sizes(
    settings: PreflightSettings, configs: dict[str, tuple], models: dict[str, Model], gpus: Gpus, processes: int
) -> Iterator[Finding]:
    """Memory of each step, and the disk."""
    from sweet_rl.preflight.sizes import (
        MOST_OF_A_GPU,
        PlannedTraining,
        check_disk,
        check_engine,
        check_ranking,
        check_training,
    )
    from sweet_rl.preflight.versions import installed

    planned: list[PlannedTraining] = []
    for path, (how, data, pictures) in configs.items():
        name = (settings.critic_model if pictures else None) or settings.agent_model
        if name in models:
            planned.append(PlannedTraining(Path(path).name, models[name], how, data))
    if gpus:
        with_vllm = installed("vllm") is not None
        agent = models.get(settings.agent_model)
        others, share = gpus, MOST_OF_A_GPU
        if settings.human_gpus and settings.env_model in models:
            human, others = _divided(gpus, settings.human_gpus, settings.human_share is not None)
            own = settings.human_share or MOST_OF_A_GPU
            share -= settings.human_share or 0
            yield check_engine("the human", models[settings.env_model], human, True, own)
        if agent:
            yield check_engine("dialogues and sampling", agent, others, with_vllm, share)
        for training in planned:
            yield check_training(training, gpus, processes)
        if agent and planned:
            critic = models.get(settings.critic_model or "")
            yield check_ranking([critic] if critic else [agent, agent], gpus)
    yield from check_disk(settings.output_dir, planned, list(models.values()), processes, settings.at_once)


def _divided(gpus: Gpus, human_gpus: str, shared: bool) -> tuple[Gpus, Gpus]:
    """The GPUs of the human and those of the agent: the others, or all if they are shared.

    Raises:
        UserError: A GPU is named that torch does not see, or none is left.
    """
    from sweet_rl.model_loading import visible_groups
    from sweet_rl.preflight.gpus import Gpus

    names = [group["CUDA_VISIBLE_DEVICES"].strip() for group in visible_groups(1)]
    own = [name.strip() for name in human_gpus.split(",")]
    if unknown := [name for name in own if name not in names]:
        raise UserError(f"--human_gpus names {', '.join(unknown)}; torch can use {', '.join(names)}.")
    if len(own) == len(names) and not shared:
        raise UserError(
            f"--human_gpus {human_gpus} leaves no GPU to the agent's dialogues: name fewer, or --human_share."
        )
    parts = []
    for mine in (True, False):
        chosen = [i for i, name in enumerate(names) if (name in own) == mine or (shared and not mine)]
        parts.append(Gpus([gpus.free[i] for i in chosen], [gpus.total[i] for i in chosen]))
    return parts[0], parts[1]


def _names(settings: PreflightSettings) -> list[str]:
    """The models that this machine reads, each once."""
    names = [settings.agent_model, settings.critic_model, settings.env_model if settings.human_gpus else None]
    return list(dict.fromkeys(name for name in names if name))


def _all(found: Iterable[Finding]) -> Iterator[Finding]:
    """The findings; a UserError in between is one too, the last."""
    try:
        yield from found
    except UserError as error:
        yield failed(str(error))


def _training_settings(path: str, flags: str) -> tuple[TrainingSettings, DataSettings, bool]:
    """The settings of a training's config with flags over them, and whether its model sees pictures.

    Raises:
        UserError: The config cannot be read, or a setting is wrong.
    """
    content = read_config(path)
    over = parse_flags(_flags, shlex.split(flags))
    groups: list[Any] = []
    for kind in (TrainingSettings, DataSettings):
        names = {field.name for field in fields(kind)}
        values = {name: value for name, value in (content | over).items() if name in names}
        groups.append(build(kind, values, path))
    return groups[0], groups[1], bool(content.get("reference_picture"))


def _flags(training: TrainingSettings, data: DataSettings) -> None:
    """The flags that all training scripts have."""


def processes_of(launch: str, gpus: int) -> tuple[int, int]:
    """The number of processes that a launcher starts on this machine, and on all machines together.

    Args:
        launch: Command of the launcher: torchrun with --nproc_per_node and --nnodes, or deepspeed with --num_gpus or
            --hostfile.
        gpus: Number of GPUs of this machine.
    """
    here, nodes = max(1, gpus), 1
    if not re.search(r"\bdeepspeed\b", launch):
        found = re.search(r"--nproc[_-]per[_-]node[= ](\w+)", launch)
        here = 1 if found is None else int(found[1]) if found[1].isdigit() else here
        nodes = int((re.search(r"--nnodes[= ](?:\d+:)?(\d+)", launch) or [0, 1])[1])
    elif found := re.search(r"--hostfile[= ](\S+)", launch):
        slots = [int(count) for count in re.findall(r"slots=(\d+)", _text(found[1]))]
        return (slots[0], sum(slots)) if slots else (here, here)
    elif found := re.search(r"--num_gpus[= ](\d+)", launch):
        here = int(found[1])
    return here, here * nodes


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"--launch: {path} cannot be read ({error.strerror}).") from error
