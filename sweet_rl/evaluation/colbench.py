"""ColBench's Backend Programming in one command, for models behind an API: tasks, dialogues, grades, table, pages."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from sweet_rl.dialogues.backend.environment import CodeGrading
from sweet_rl.dialogues.collect import CollectionSettings
from sweet_rl.dialogues.domain import Domain
from sweet_rl.dialogues.simulate import PlayerSettings, Simulation
from sweet_rl.dialogues.simulated_human import HumanSettings
from sweet_rl.dialogues.task_types import load_domain
from sweet_rl.evaluation.comparison_files import ComparisonSettings, compare_files
from sweet_rl.evaluation.evaluate import SummarySettings, evaluate
from sweet_rl.evaluation.grade_file import GradedDialogues
from sweet_rl.evaluation.training_data import DialogueTexts, TrainingData
from sweet_rl.isolation.rendering.settings import BrowserSettings
from sweet_rl.models.base import ModelError, Sampling
from sweet_rl.models.cache import CallCache
from sweet_rl.models.load import load_model
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.models.thinking import without_thinking
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import hash_input, read_manifest
from sweet_rl.runs.records import Task, read_records
from sweet_rl.runs.step import StepSettings

GREETING = "This is a test of the connection. Please answer with the word yes."
PAPER = (
    "the figures of the paper are with meta-llama/Llama-3.1-70B-Instruct as the human and with other prompts; those of "
    "another human do not compare with them"
)


@dataclass(frozen=True)
class ModelsAndTasks:
    """What is evaluated, on what, and where it is written.

    Attributes:
        model: Models that are evaluated, by the names that their servers have for them.
        human: Model that plays the human, by the name that its server has for it.
        tasks: Tasks, JSONL: a file, or a name of one on the hub.
        output_dir: Folder of the replies (calls), and of dialogues, grades, pages and table in a folder per --limit.
        model_hostname: Server of the models: host, host:port or URL. Several separated by commas are one for each of
            --model; those of a single model share its calls. Without one it is OpenAI's own API.
        model_api_key_variable: Environment variable that holds the key of the models' server, or one for each of
            --model. Default: OPENAI_API_KEY, which is sent to OpenAI's own API only.
        model_request: Fields of the request body that override all others; null leaves a field out:
            '{"temperature": null, "reasoning_effort": "low"}'.

    Raises:
        UserError: Two models whose files would have the same name, or another number of servers or keys than of models.
    """

    model: tuple[str, ...]
    human: str
    tasks: str = "colbench/backend/test"
    output_dir: str = "colbench"
    model_hostname: tuple[str, ...] = ()
    model_api_key_variable: tuple[str, ...] = ()
    model_request: dict | None = None

    def __post_init__(self) -> None:
        names = [file_name(model) for model in self.model]
        if not names or len(set(names)) < len(names):
            raise UserError(f"--model is {','.join(self.model)!r}: give each model once, under a name of its own.")
        for flag in ("model_hostname", "model_api_key_variable"):
            count = len(getattr(self, flag))
            if count > 1 and len(names) > 1 and count != len(names):
                raise UserError(f"--{flag} has {count} values for {len(names)} models: give one, or one for each.")
        if len(names) == 1 and len(self.model_api_key_variable) > 1:
            raise UserError("--model_api_key_variable has several values for one model: give one.")

    def servers(self) -> dict[str, ModelSettings]:
        """Where each model runs. Raises UserError if a variable that should hold a key is not set."""
        found = {}
        for number, name in enumerate(self.model):
            hosts, keys = self.model_hostname, self.model_api_key_variable
            if len(self.model) > 1:
                hosts, keys = (values[number : number + 1] or values for values in (hosts, keys))
            where = ModelSettings(
                hostname=",".join(hosts) or None,
                api_key_variable=",".join(keys) or None,
                request=self.model_request,
            )
            found[name] = on_server(where)
        return found


def file_name(model: str) -> str:
    """The name of a model in names of files."""
    return re.sub(r"[^\w.-]+", "_", model)


def on_server(where: ModelSettings) -> ModelSettings:
    """The model at its server, or without one at OpenAI's API. The server lays out prompts by its chat template."""
    return replace(where, engine="auto" if where.hostname else "openai", tokenizer=None)


def run_colbench(
    wanted: ModelsAndTasks,
    collection: CollectionSettings,
    sampling: Sampling,
    env: ModelSettings,
    human: HumanSettings,
    calls: CallSettings,
    grading: CodeGrading,
    write_page: Callable[[Path, Path], None],
    overwrite: bool = False,
) -> None:
    """Evaluate the models: play, grade, compare with each other and with the paper, and write pages to read.

    Every reply is kept in a cache in the folder when it arrives. The same call continues what was stopped.

    Args:
        wanted: Models, human, tasks and folder.
        collection: Which dialogues are played.
        sampling: How the models' messages are sampled.
        env: Where the human's model runs.
        human: How the model plays the human.
        calls: How calls are made; their cache is `calls` in the folder.
        grading: How answers are run.
        write_page: Function `write_page(graded, page)` that writes the page to read a model's dialogues.
        overwrite: Whether dialogues and grades of other settings are replaced.

    Raises:
        UserError: Before the first dialogue: there are no tasks, or a model does not answer. Later: as the steps.
    """
    domain, servers, env = load_domain("code"), wanted.servers(), on_server(env)
    folder = Path(wanted.output_dir, f"first_{collection.num_tasks}" if collection.num_tasks else "all")
    calls = replace(calls, cache=str(Path(wanted.output_dir, "calls")))
    print(f"{len(read_records(wanted.tasks, Task, collection.num_tasks)):,} tasks of {wanted.tasks}")
    graded = {}
    with contextlib.closing(CallCache(str(calls.cache), calls.max_calls)) as cache:
        asyncio.run(_greet(wanted, servers, env, sampling, human, calls, cache, domain))
        if len(servers) > 1:
            print(f"{len(servers)} models, one after the other; each has the estimate of the first")
        for name, where in servers.items():
            played, graded[name] = (folder / f"{file_name(name)}{end}" for end in (".jsonl", ".graded.jsonl"))
            print(f"\n{name}", flush=True)
            players = PlayerSettings(agent_model=name, env_model=wanted.human)
            simulation = Simulation(domain, players, collection, sampling, where, env, calls, human, BrowserSettings())
            simulation.run(wanted.tasks, str(played), StepSettings(overwrite=overwrite), cache)
            dialogues = GradedDialogues(str(played), str(graded[name]), retry_failed=collection.retry_failed)
            step = StepSettings(overwrite=overwrite or _of_other_dialogues(graded[name], played))
            evaluate(domain, dialogues, SummarySettings(), TrainingData(), DialogueTexts(), grading, step)
            write_page(graded[name], folder / f"{file_name(name)}.html")
    print()
    compare_files(
        ComparisonSettings(
            runs={name: [str(path)] for name, path in graded.items()},
            baselines=wanted.model[:1] if len(wanted.model) > 1 else (),
            paper="table2",
            output_path=str(folder / "results.json"),
            markdown_path=str(folder / "results.md"),
            settings=PAPER,
            overwrite=True,
        )
    )
    print(f"The human was {wanted.human}; {PAPER}.\n{folder / 'results.md'}: this table")


def _of_other_dialogues(graded: Path, played: Path) -> bool:
    """Whether the grades are of dialogues of which some were played again since (--retry_failed)."""
    manifest = read_manifest(graded)
    return manifest is not None and hash_input(played) not in manifest["inputs"].values()


async def _greet(
    wanted: ModelsAndTasks,
    servers: dict[str, ModelSettings],
    env: ModelSettings,
    sampling: Sampling,
    human: HumanSettings,
    calls: CallSettings,
    cache: CallCache,
    domain: Domain,
) -> None:
    """Make one call to each model, with the settings of its dialogues. Raises UserError if one gives no text."""
    said = Sampling(temperature=human.temperature, max_tokens=human.max_tokens or domain.max_reply_tokens)
    asked: list[tuple[str, str, ModelSettings, Sampling]] = [
        ("--model", name, where, replace(sampling, n=1)) for name, where in servers.items()
    ]
    if wanted.human not in domain.scripted_humans:
        asked.append(("--human", wanted.human, env, said))
    for flag, name, where, how in asked:
        model = load_model(name, where, calls, cache)
        try:
            await model.check()
            (reply,) = await model.complete([{"role": "user", "content": GREETING}], how)
        except ModelError as error:
            raise UserError(f"{flag} {name} does not answer a first call: {error}") from error
        finally:
            await model.close()
        if not without_thinking(reply.text).strip():
            limit = f"{'--human_max_tokens' if flag == '--human' else '--max_tokens'} {how.max_tokens}"
            raise UserError(
                f"{flag} {name} answers a first call with an empty text after {reply.completion_tokens} tokens. "
                f"A model that reasons first needs a higher {limit}, or less reasoning (--{flag[2:]}_request)."
            )
        print(f"{flag} {name}: answers")
