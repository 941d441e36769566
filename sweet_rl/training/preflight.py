"""What this machine lacks for a long run, said in seconds instead of hours (scripts/preflight.py).

Each check returns what it found, or raises UserError with the remedy.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweet_rl.dialogues.task_types import ProtocolSettings, load_domain
from sweet_rl.models.settings import ModelSettings
from sweet_rl.runs.cli import build, parse_flags, read_config
from sweet_rl.runs.errors import NothingMade, UserError, extras_named, first_line
from sweet_rl.runs.printable import printable
from sweet_rl.runs.records import Task, Trajectory, scan_rows
from sweet_rl.runs.redaction import redacted
from sweet_rl.training.settings import DataSettings, TrainingSettings

if TYPE_CHECKING:
    from sweet_rl.training.memory import ModelShape, TrainingSetup

WATCHED = ("torch", "transformers", "vllm", "deepspeed", "peft", "accelerate", "numpy", "openai", "huggingface_hub")
PACKAGES = {  # by the extra that brings them
    "train": ("torch", "transformers", "accelerate"),
    "vllm": ("vllm",),
    "deepspeed": ("deepspeed",),
    "lora": ("peft",),
    "frontend": ("selenium", "pillow", "datasets", "websocket_client", "efficientnet_lite_pytorch"),
}
TOO_LARGE_FOR_A_CPU = 1e9  # weights
TOKENS = 8192  # of a text, if --max_len is not given
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")


@dataclass(frozen=True)
class PreflightSettings:
    """What the run will do.

    Attributes:
        agent_model: Agent, from which the trainings start; folder or hub name.
        critic_model: Model from which a critic that sees pictures starts.
        env_model: The simulated human.
        hostname: Server of the human, which must answer; several separated by commas. Without one, the run itself
            starts a server of the human with vLLM.
        api_key_variable: Environment variable that holds the key of the human's server.
        tasks: Files of tasks or dialogues that the run reads, separated by commas.
        output_dir: Folder of the run.
        trainings: Config files of the trainings, separated by commas.
        train_flags: Flags that all trainings get beside their config: --train_flags="--lora_rank 16".
        launch: Launcher of a training, for example "torchrun --nproc_per_node 8".
        at_once: Number of trainings that run at the same time, each with processes of its own.
        cpu: Run on the CPU on purpose: GPUs are not looked at.
        packages_only: Check only what is installed.
        recipe: Command that is given again once everything is mended, for the last line.
    """

    agent_model: str
    critic_model: str | None = None
    env_model: str | None = None
    hostname: str | None = None
    api_key_variable: str | None = None
    tasks: tuple[str, ...] = ()
    output_dir: str = "runs"
    trainings: tuple[str, ...] = ()
    train_flags: str = ""
    launch: str = "python"
    at_once: int = 1
    cpu: bool = False
    packages_only: bool = False
    recipe: str | None = None


@dataclass(frozen=True)
class Training:
    """One training of the run.

    Attributes:
        name: Name of its config file.
        settings: Settings of the training.
        data: How records become examples.
        pictures: Whether its model sees pictures.
    """

    name: str
    settings: TrainingSettings
    data: DataSettings
    pictures: bool


def preflight(settings: PreflightSettings, protocol: ProtocolSettings | None = None, task_type: str = "code") -> None:
    """Print a line `ok: ...` or `FAILED: ...` for each check.

    Args:
        settings: What the run will do.
        protocol: Protocol of its dialogues; by default the package's own.
        task_type: Domain of its dialogues.

    Raises:
        NothingMade: A check failed, so that the run would too.
        UserError: A setting is wrong.
    """
    failed = 0
    for what, check in Preflight(settings, protocol, task_type).checks():
        try:
            with extras_named():
                line = f"ok: {what}: {check()}"
        except UserError as error:
            failed += 1
            line = f"FAILED: {what}: {error}"
        print(printable(redacted(" ".join(line.split()))), flush=True)
    if failed:
        recipe = f" Then give the command again: {settings.recipe}." if settings.recipe else ""
        raise NothingMade(f"{failed} of the checks failed (see above), and nothing was started.{recipe}")


class Preflight:
    """The checks of a run; later ones use what earlier ones found: GPUs, and the models that can be read.

    Raises UserError for a setting that is wrong.
    """

    def __init__(
        self, settings: PreflightSettings, protocol: ProtocolSettings | None = None, task_type: str = "code"
    ) -> None:
        self.settings, self.protocol, self.task_type = settings, protocol, task_type
        self.domain = load_domain(task_type)  # by the package's own protocol, because the other may need a download
        self.trainings = [read_training(path, settings.train_flags) for path in settings.trainings]
        self.gpus, self.free = 0, 0  # GPUs that torch can use, and the free bytes of the fullest one
        self.shapes: dict[str, ModelShape] = {}
        self.downloads: dict[str, int] = {}

    def checks(self) -> Iterator[tuple[str, Callable[[], str]]]:
        """(what is checked, check) in order. A check is made before the next one is asked for."""
        settings = self.settings
        yield "versions", self.versions
        if self.domain.draws_pages:
            yield "browser", check_browser
        if settings.packages_only:
            return
        if self.protocol is not None and self.protocol.protocol == "released":  # its prompts are downloaded
            yield "protocol", self.check_protocol
        yield "GPUs", self.check_gpus
        human = None if settings.hostname else settings.env_model
        for name in dict.fromkeys((settings.agent_model, settings.critic_model, human)):
            if name:
                yield "models", partial(self.check_model, name)
        for path in settings.tasks:
            yield "tasks", partial(check_tasks, path)
        if settings.env_model and settings.hostname:
            yield "human", self.check_human
        for training in self.trainings:
            if self.gpus and self.model_of(training) in self.shapes:
                yield "memory", partial(self.check_training, training)
        yield "disk", self.check_disk

    def model_of(self, training: Training) -> str:
        """The name of the model from which a training starts."""
        return (self.settings.critic_model if training.pictures else None) or self.settings.agent_model

    def versions(self) -> str:
        """The packages that this run needs, and whether the installed ones fit each other and setup.py."""
        extras = self.extras()
        lacking = {extra: [name for name in PACKAGES[extra] if not installed(name)] for extra in extras}
        lacking = {extra: names for extra, names in lacking.items() if names}
        if lacking:
            names = ", ".join(name for missing in lacking.values() for name in missing)
            raise UserError(f"not installed: {names}. {install_line(lacking)}.")
        found = {name: number for name in WATCHED if (number := installed(name))}
        if wrong := list(misfits(found)):
            raise UserError(f"{'; '.join(wrong)}. {install_line(extras)}.")
        return ", ".join(f"{name} {number}" for name, number in found.items())

    def extras(self) -> list[str]:
        """The extras of setup.py whose packages this run needs."""
        needed = {"train"}
        needed |= {"deepspeed" for one in self.trainings if one.settings.zero_stage is not None}
        needed |= {"lora" for one in self.trainings if one.settings.lora_rank}
        needed |= {"vllm"} if self.settings.env_model and not self.settings.hostname else set()
        needed |= {"frontend"} if self.domain.draws_pages else set()
        return [extra for extra in PACKAGES if extra in needed]

    def check_protocol(self) -> str:
        """Load the prompts of the dialogues, which may have to be downloaded."""
        return f"the prompts of the {load_domain(self.task_type, self.protocol).protocol} protocol are here"

    def check_gpus(self) -> str:
        """The GPUs that torch can use, against those of the driver and the processes of a training."""
        import torch

        from sweet_rl.models.weights import gpu_memory

        if self.settings.cpu:
            return "not looked at (--cpu)"
        if not torch.cuda.is_available():
            if listed := driver_gpus():
                hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
                reason = f"Install a driver for CUDA {torch.version.cuda}, or a torch for this driver"
                if torch.version.cuda is None:
                    reason = f"This torch is built for CPUs. {install_line(self.extras())}"
                elif hidden is not None:
                    reason = f"CUDA_VISIBLE_DEVICES={hidden!r} hides them: unset it, or give --cpu"
                raise UserError(f"torch {torch.__version__} cannot use those of nvidia-smi ({listed}). {reason}.")
            return "none, so everything runs on the CPU. In a container: docker run --gpus all"
        memory = gpu_memory(free=True)
        self.gpus, self.free = len(memory), min(memory)
        processes = processes_of(self.settings.launch, self.gpus)[0] * self.settings.at_once
        if processes > self.gpus:
            raise UserError(
                f"the trainings have {processes} processes for {self.gpus} GPUs: --nproc_per_node {self.gpus}."
            )
        name = torch.cuda.get_device_name(0)
        return f"torch {torch.__version__} can use {self.gpus} ({name}), with at least {_gb(self.free)} free each"

    def check_model(self, name: str) -> str:
        """Read the configuration of a model, and see that its weights are there or may be downloaded."""
        from sweet_rl.models.weights import check_loadable, load_config, model_path, parameter_count
        from sweet_rl.training.memory import ModelShape

        local = Path(model_path(name)).is_dir()
        cached = not local and check_on_hub(name)
        if local:
            check_loadable(name)
        elif cached:
            try:
                check_loadable(cached)  # the headers of all files of weights
            except UserError as error:
                raise UserError(f"{error} `hf download {name}` completes it.") from error
        count = parameter_count(name)
        try:
            shape = ModelShape.of(load_config(name), count)
        except (AttributeError, RuntimeError, TypeError):  # no attention (Mamba), or a size that differs among layers
            shape = ModelShape(0, 0, 0, 0, 0, 0, 0, others=count)
        if shape.parameters > TOO_LARGE_FOR_A_CPU and not self.gpus and not self.settings.cpu:
            raise UserError(f"{name} has {shape.parameters / 1e9:.1f} billion weights, and torch can use no GPU.")
        self.shapes[name] = shape
        self.downloads[name] = 0 if local or cached else 2 * shape.parameters
        where = "here" if local else "in the hub's cache" if cached else f"{_gb(self.downloads[name])} to download"
        return f"{name} can be read ({shape.parameters / 1e6:,.0f} million weights, {where})"

    def check_human(self) -> str:
        """Ask the servers of the simulated human whether they serve it."""
        from sweet_rl.models.openai_server import OpenAIServer

        name, hostname = self.settings.env_model or "", self.settings.hostname
        where = ModelSettings(hostname=hostname, api_key_variable=self.settings.api_key_variable)

        async def ask() -> None:
            model = OpenAIServer(name, where.urls(), where.api_key(), timeout=30.0)
            try:
                await model.check()
            finally:
                await model.close()

        asyncio.run(ask())
        return f"{name} is served by {hostname}"

    def check_training(self, training: Training) -> str:
        """Calculated memory of a training on each of its GPUs."""
        from sweet_rl.training.memory import training_memory

        if training.settings.load_in_4bit or training.settings.optim != "adamw":
            return f"{training.name} keeps numbers in 4 or 8 bits, for which nothing is calculated"
        if not self.shapes[self.model_of(training)].layers:
            return f"{training.name}: nothing is calculated for {self.model_of(training)}, whose layers are not Llama's"
        setup = self.setup_of(training)
        need = training_memory(self.shapes[self.model_of(training)], setup).total
        text = f"{training.name}: {_gb(need)} a GPU, calculated for {setup.tokens:,} tokens, of {_gb(self.free)} free"
        if need > self.free:
            raise UserError(
                f"{text}. End other processes (nvidia-smi names them), or give more GPUs, --sharding fsdp2, "
                "--zero_stage 3, --adam_offload, --lora_rank 16, --gradient_checkpointing or a smaller --max_len."
            )
        return text

    def setup_of(self, training: Training) -> TrainingSetup:
        """What decides the memory of a training: one pair of the longest texts at a time. Raises UserError for a batch
        that cannot be divided among the processes."""
        from sweet_rl.training.batches import divided_batch
        from sweet_rl.training.memory import TrainingSetup

        how, processes = training.settings, processes_of(self.settings.launch, self.gpus)[1]
        return TrainingSetup(
            tokens=2 * (training.data.max_len or TOKENS),
            gpus=processes,
            bf16=how.bf16,
            zero_stage=how.zero_stage,
            lora_rank=how.lora_rank,
            offload=how.adam_offload,
            accumulates=divided_batch(how, processes)[1] > 1,
            checkpointing=how.gradient_checkpointing,
            sharding=how.sharding,
        )

    def check_disk(self) -> str:
        """Room for the checkpoints of trainings that run at the same time, for trained models and for downloads."""
        from huggingface_hub.constants import HF_HUB_CACHE

        from sweet_rl.training.memory import checkpoint_bytes

        checkpoints, saved = [], 0
        for one in self.trainings:
            if shape := self.shapes.get(self.model_of(one)):
                kept = 3 if one.settings.keep == "best" else 2
                checkpoints.append(kept * checkpoint_bytes(shape, self.setup_of(one)))
                saved += shape.parameters * (2 if one.settings.bf16 else 4)
        output, cache = Path(self.settings.output_dir), Path(HF_HUB_CACHE)
        needs = {
            output: sum(sorted(checkpoints)[-self.settings.at_once :]) + saved,
            cache: sum(self.downloads.values()),
        }
        if _existing(output).stat().st_dev == _existing(cache).stat().st_dev:
            needs = {output: sum(needs.values())}
        found = []
        for folder, need in needs.items():
            written = [
                path for end in ("*.safetensors", "*.pt", "*.distcp") for path in output.rglob(end) if folder == output
            ]
            free = shutil.disk_usage(_existing(folder)).free + sum(path.lstat().st_size for path in written)
            found.append(f"{_gb(need)} for {folder}, of {_gb(free)} that are free or hold parts of it")
            if need > free:
                raise UserError(
                    f"{found[-1]}. Make room, take a folder on another disk, or train an adapter (--lora_rank 16), "
                    "whose checkpoints are small."
                )
        return "; ".join(found)


def read_training(path: str, flags: str) -> Training:
    """A training's config with flags over it. Raises UserError if it cannot be read or a setting is wrong."""
    content = read_config(path)
    try:
        over = parse_flags(_training_flags, shlex.split(flags))
    except ValueError as error:  # of shlex
        raise UserError(f"--train_flags {flags!r}: {error}. Close it.") from error
    groups: list[Any] = []
    for kind in (TrainingSettings, DataSettings):
        names = {field.name for field in fields(kind)}
        groups.append(build(kind, {name: value for name, value in (content | over).items() if name in names}, path))
    return Training(Path(path).name, groups[0], groups[1], bool(content.get("reference_picture")))


def _training_flags(training: TrainingSettings, data: DataSettings) -> None:
    """The flags that all training scripts have."""


def processes_of(launch: str, gpus: int) -> tuple[int, int]:
    """The number of processes that a launcher starts on this machine, and on all machines together.

    Args:
        launch: Command of the launcher: torchrun with --nproc_per_node and --nnodes, or deepspeed with --num_gpus.
        gpus: Number of GPUs of this machine.
    """
    found = re.search(r"--(?:nproc[_-]per[_-]node|num_gpus)[= ](\w+)", launch)
    asked_for = found[1] if found else "gpu" if "deepspeed" in launch else "1"
    here = int(asked_for) if asked_for.isdigit() else max(1, gpus)
    nodes = re.search(r"--nnodes[= ](?:\d+:)?(\d+)", launch)
    return here, here * (int(nodes[1]) if nodes else 1)


def installed(name: str) -> str | None:
    """The version of a package; None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def install_line(extras: Iterable[str]) -> str:
    """The command that brings the packages of these extras in versions that fit each other."""
    chosen = [extra for extra in extras if extra != "train"] or ["train"]  # the others bring `train` too
    return f"pip install -c constraints-gpu.txt -e '.[{','.join(chosen)}]' brings a set that fits"


def check_browser() -> str:
    """Find the browser that draws pages."""
    from sweet_rl.isolation.rendering.driver import find_browser

    return find_browser()[1]


def misfits(found: dict[str, str]) -> Iterator[str]:
    """What an installed package, or setup.py, asks of another one that has another version."""
    from packaging.requirements import Requirement

    for name in ("sweet_rl", *found):
        for text in (requires(name) if installed(name) else None) or []:
            asked = Requirement(text)
            extras = ("", "train", "vllm", "deepspeed", "lora") if name == "sweet_rl" else ("",)
            applies = asked.marker is None or any(asked.marker.evaluate({"extra": extra}) for extra in extras)
            number = found.get(asked.name.lower().replace("-", "_"))
            if applies and number and not asked.specifier.contains(number, prereleases=True):
                yield f"{name} {installed(name)} wants {asked.name}{asked.specifier}, found {number}"


def driver_gpus() -> str:
    """The GPUs that nvidia-smi lists, or its error; empty without an NVIDIA driver."""
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        return ""
    except (OSError, subprocess.TimeoutExpired) as error:
        return first_line(error)
    return (done.stdout + done.stderr).strip()


def check_on_hub(name: str) -> Path | None:
    """The folder of a model of the hub in the cache; if there is none, the hub is asked for its weights, as this user.

    Raises:
        UserError: There is no such model, it is gated or private, or the hub cannot be asked.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError, HTTPError, OfflineModeIsEnabled

    try:
        for file in WEIGHTS:
            if isinstance(path := try_to_load_from_cache(name, file), str):
                return Path(path).parent
        get_hf_file_metadata(hf_hub_url(name, "config.json"))
        if not any(_on_hub(name, file) for file in WEIGHTS):
            raise UserError(f"{name}: the hub has none of {', '.join(WEIGHTS)} of this model.")
    except (HFValidationError, HTTPError, OfflineModeIsEnabled, OSError) as error:
        raise UserError(
            f"{name} is neither a folder nor in the hub's cache, and the hub does not give it ({first_line(error)}). "
            f"Correct the name; for a gated one accept its licence at https://huggingface.co/{name} and `hf auth "
            f"login` (or HF_TOKEN); without a network here, `hf download {name}` where there is one."
        ) from error
    return None


def _on_hub(name: str, file: str) -> bool:
    """Whether the hub has a file of a model and lets this user read it. Raises HTTPError if it does not let them."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import EntryNotFoundError

    try:
        get_hf_file_metadata(hf_hub_url(name, file))
    except EntryNotFoundError:
        return False
    return True


def check_tasks(path: str) -> str:
    """Open a file of tasks or dialogues, downloaded if it is on the hub, and make a record of its first row."""
    first = next(scan_rows(path), None)
    if first is None:
        raise UserError(f"{path}: the file has no records.")
    number, _, row = first
    kind = Trajectory if "dialogue_history" in row else Task
    kind.from_dict(row, f"{path}, line {number}")
    return f"{path} can be read"


def _gb(count: float) -> str:
    return f"{count / 1e9:,.1f} GB"


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next(path for path in (folder.resolve(), *folder.resolve().parents) if path.exists())
