"""ColBench in one command, for models behind an API: tasks, estimate, dialogues, grades, table, pages."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import sweet_rl
from sweet_rl.dialogues.backend.environment import CodeGrading
from sweet_rl.dialogues.domain import Domain
from sweet_rl.dialogues.frontend.encoders import CLIP
from sweet_rl.dialogues.frontend.environment import PageGrading
from sweet_rl.dialogues.simulate import CHARS_PER_TOKEN, CollectionSettings, Cost, PlayerSettings, Simulation, estimate
from sweet_rl.dialogues.simulated_human import HumanSettings
from sweet_rl.dialogues.task_types import ProtocolSettings, load_domain
from sweet_rl.evaluation.compare import ComparisonSettings, compare_files
from sweet_rl.evaluation.evaluate import DialogueTexts, GradedDialogues, SummarySettings, TrainingData, evaluate
from sweet_rl.evaluation.graded_file import read_graded
from sweet_rl.evaluation.paper import paper_lines
from sweet_rl.evaluation.statistics import bootstrap_interval
from sweet_rl.evaluation.summary import summarise_rewards
from sweet_rl.models.base import Sampling
from sweet_rl.models.cache import CallCache
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.rendering.settings import BrowserSettings
from sweet_rl.runs.cli import UNRECORDED
from sweet_rl.runs.errors import NothingMade, UserError, masked, printable
from sweet_rl.runs.hub import is_on_hub
from sweet_rl.runs.manifest import hash_input, read_manifest
from sweet_rl.runs.paths import write_texts
from sweet_rl.runs.progress import progress_bar
from sweet_rl.runs.records import Task, Trajectory, hash_rows, read_records
from sweet_rl.runs.step import StepSettings

FORM = 1  # of the fields of results.json
FAILED_SHARE = 0.2  # above this share of failed dialogues the command ends with an error
PAPER_TASKS = {"code": 1000, "html": 500}


@dataclass(frozen=True)
class ModelsAndTasks:
    """What is evaluated, on what, and where it is written.

    Attributes:
        model: Models that are evaluated, by the names that their servers have for them.
        human: Model that plays the human, by the name that its server has for it.
        task_type: Half of the benchmark: code (Backend Programming) or html (Frontend Design).
        tasks: Tasks, JSONL: a file, or a name of one on the hub. By default the paper's test tasks; those of html are
            made of WebSight, which is read from the hub.
        limit: Number of tasks, from the start of the file; by default as many as in the paper, 1,000 (code) or 500
            (html).
        output_dir: Folder of the replies (calls), and of dialogues, grades, pages and table in a folder per --limit.
        model_hostname: Server of the models: host, host:port or URL. Several separated by commas are one for each of
            --model. Without one it is OpenAI's own API.
        model_api_key_variable: Environment variable that holds the key of the models' server, or one for each of
            --model. Default: OPENAI_API_KEY, which is sent to OpenAI's own API only.
        model_request: Fields of the request body that override all others; null leaves a field out:
            '{"temperature": null, "reasoning_effort": "low"}'.
        estimate: Print calls and tokens of all models and of the human, and stop.

    Raises:
        UserError: Two models whose files would have the same name, another number of servers or keys than of models,
            or a limit below 1.
    """

    model: tuple[str, ...]
    human: str
    task_type: Literal["code", "html"] = "code"
    tasks: str | None = None
    limit: int | None = None
    output_dir: str = "colbench"
    model_hostname: tuple[str, ...] = ()
    model_api_key_variable: tuple[str, ...] = ()
    model_request: dict | None = None
    estimate: Annotated[bool, UNRECORDED] = False

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise UserError(f"--limit is {self.limit}; it must be at least 1.")
        names = [file_name(model) for model in self.model]
        if not names or len(set(names)) < len(names):
            raise UserError(f"--model is {','.join(self.model)!r}: give each model once, under a name of its own.")
        for flag in ("model_hostname", "model_api_key_variable"):
            count = len(getattr(self, flag))
            if count > 1 and count != len(names):
                raise UserError(f"--{flag} has {count} values for {len(names)} models: give one, or one for each.")

    def servers(self) -> dict[str, ModelSettings]:
        """Where each model runs. Raises UserError if a variable that should hold a key is not set."""
        found = {}
        for number, name in enumerate(self.model):
            given = (self.model_hostname, self.model_api_key_variable)
            host, key = (values[number % len(values)] if values else None for values in given)
            found[name] = on_server(ModelSettings(hostname=host, api_key_variable=key, request=self.model_request))
        return found


def file_name(model: str) -> str:
    """The name of a model in names of files."""
    return re.sub(r"[^\w.-]+", "_", model)


def on_server(where: ModelSettings) -> ModelSettings:
    """The model at its server, or without one at OpenAI's API. The server lays out prompts by its chat template."""
    return replace(where, engine="auto" if where.hostname else "openai", tokenizer=None)


@dataclass(frozen=True)
class ColBench:
    """Everything that the figures of some models depend on.

    Attributes:
        wanted: Models, human, tasks and folder.
        protocol: Protocol of the dialogues. The released one is graded by the released rules.
        collection: Which dialogues are played; the number of tasks is that of `wanted`.
        sampling: How the models' messages are sampled.
        env: Where the human's model runs.
        human: How the model plays the human.
        calls: How calls are made; their cache is `calls` in the folder.
        code: How answers are run.
        pages: How pages are drawn and compared.
    """

    wanted: ModelsAndTasks
    protocol: ProtocolSettings
    collection: CollectionSettings
    sampling: Sampling
    env: ModelSettings
    human: HumanSettings
    calls: CallSettings
    code: CodeGrading
    pages: PageGrading

    @cached_property
    def domain(self) -> Domain:
        """The domain under its protocol. Raises UserError if the protocol's files cannot be had."""
        return load_domain(self.wanted.task_type, self.protocol)

    @cached_property
    def limit(self) -> int:
        """Number of tasks."""
        return self.wanted.limit or PAPER_TASKS[self.wanted.task_type]

    @cached_property
    def folder(self) -> Path:
        """The folder of dialogues, grades, table and pages."""
        kind = "" if self.wanted.task_type == "code" else f"{self.wanted.task_type}_"
        kind += "" if self.protocol.protocol == "sweet_rl" else f"{self.protocol.protocol}_"
        return Path(self.wanted.output_dir, f"{kind}first_{self.limit}")

    @cached_property
    def tasks_file(self) -> str:
        """The file of the tasks, or its name on the hub. Those of WebSight are written if they are not there."""
        if self.wanted.tasks or self.wanted.task_type == "code":
            return self.wanted.tasks or "colbench/backend/test"
        from sweet_rl.dialogues.frontend.websight import TaskCounts, prepare

        count = max(self.limit, PAPER_TASKS["html"])
        folder = Path(self.wanted.output_dir, f"websight_{count}")
        prepare(TaskCounts(0, count), str(folder), None, StepSettings())
        return str(folder / "test.jsonl")

    @cached_property
    def tasks(self) -> list[Task]:
        """The tasks. Raises UserError if there are none of this domain."""
        tasks = read_records(self.tasks_file, Task, self.limit)
        self.domain.check(tasks, self.tasks_file)
        return tasks

    @cached_property
    def grading(self) -> CodeGrading | PageGrading:
        """How answers are graded."""
        released = self.protocol.protocol == "released"
        if self.domain.draws_pages:
            return replace(self.pages, paper_grader=released)
        return replace(self.code, paper_grader=released)

    @cached_property
    def simulations(self) -> dict[str, Simulation]:
        """The dialogues of each model by its name."""
        calls = replace(self.calls, cache=str(Path(self.wanted.output_dir, "calls")))
        collection = replace(self.collection, num_tasks=self.limit)
        window = BrowserSettings(**{one.name: getattr(self.pages, one.name) for one in fields(BrowserSettings)})
        return {
            name: Simulation(
                self.domain,
                PlayerSettings(agent_model=name, env_model=self.wanted.human),
                collection,
                self.sampling,
                where,
                on_server(self.env),
                calls,
                self.human,
                window,
            )
            for name, where in self.wanted.servers().items()
        }

    def file(self, model: str, ending: str) -> Path:
        """A file of a model: its dialogues (jsonl), the same with their grades (graded.jsonl), the page (html)."""
        return self.folder / f"{file_name(model)}.{ending}"

    def run(self, write_page: Callable[[Path, Path], None], overwrite: bool = False) -> None:
        """Evaluate the models: play, grade, compare with each other and with the paper; write results and pages.

        Every reply is kept in a cache in the folder when it arrives. The same call continues what was stopped.

        Args:
            write_page: Function `write_page(graded, page)` that writes the page to read a model's dialogues.
            overwrite: Whether dialogues and grades of other settings are replaced.

        Raises:
            UserError: Before the first paid call: there are no tasks, or the answers cannot be graded on this machine.
                Later: as the steps, and, when all is written, if too many dialogues failed.
        """
        simulations = self.simulations
        print(f"{len(self.tasks):,} tasks of {self.tasks_file}")
        print(self.estimate(), flush=True)
        if self.wanted.estimate:
            return
        check_grading(self.domain, self.grading, self.tasks)
        calls = next(iter(simulations.values())).calls
        with contextlib.closing(CallCache(str(calls.cache))) as cache:
            for name, simulation in simulations.items():
                print(f"\n{name}", flush=True)
                played, graded = self.file(name, "jsonl"), self.file(name, "graded.jsonl")
                simulation.run(self.tasks_file, str(played), StepSettings(overwrite=overwrite), cache)
                dialogues = GradedDialogues(str(played), str(graded), retry_failed=self.collection.retry_failed)
                step = StepSettings(overwrite=overwrite or _of_other_dialogues(graded, played))
                evaluate(self.domain, dialogues, SummarySettings(), TrainingData(), DialogueTexts(), self.grading, step)
                write_page(graded, self.file(name, "html"))
        print()
        facts = self.facts()
        comparison = compare_files(
            ComparisonSettings(
                runs={name: str(self.file(name, "graded.jsonl")) for name in simulations},
                baselines=self.wanted.model[:1] if len(simulations) > 1 else (),
                paper="table2" if facts["grader"].get("encoder", CLIP) == CLIP else None,
                output_path=str(self.folder / "comparison.json"),
                markdown_path=str(self.folder / "results.md"),
                overwrite=True,
            )
        )
        if comparison["paper"]:
            facts["paper"], facts["here"] = (line.partition(": ")[2] for line in paper_lines(comparison))
        text = masked(json.dumps(facts, indent=2, ensure_ascii=False)) + "\n"
        write_texts({self.folder / "results.json": text}, overwrite=True)
        print(f"{self.folder}: results.md is this table, results.json what it was measured with, *.html the dialogues")
        for row in facts["models"]:
            if row["failed"] > FAILED_SHARE * row["dialogues"]:
                raise NothingMade(
                    f"{row['name']}: {row['failed']} of {row['dialogues']} dialogues failed, and its figures "
                    "are without them. See the failures above; the same command with --retry_failed plays them again."
                )

    def estimate(self) -> str:
        """Lines about what all dialogues cost at most. Stored replies are not subtracted."""
        tasks = [task for task, _ in self.collection.jobs(self.tasks)]
        turns, pages = self.collection.max_turns, self.domain.draws_pages
        lines, human = [], Cost(0, 0, 0)
        for name, simulation in self.simulations.items():
            costs = estimate(tasks, turns, simulation.paid_prompts(), self.sampling.n, pages)
            lines.append(f"estimate, {name}: {costs['agent']}")
            if "human" in costs:
                human = Cost(*map(sum, zip(human, costs["human"], strict=True)))
        if human.calls:
            lines.append(f"estimate, human {self.wanted.human}: {human}")
        answer = round(sum(len(task.ground_truth) for task in tasks) / len(tasks) / CHARS_PER_TOKEN)
        note = f"{len(tasks):,} dialogues of {turns} turns per model; {answer:,} per answer, without reasoning"
        return "\n".join([*lines, f"({note})"])

    def facts(self) -> dict[str, Any]:
        """The content of `results.json`: what was measured, and with what.

        Fields of --model_request override the sampling settings of the same name; the others belong to the models.
        Seeds are not in it, because figures with other seeds are comparable.

        Raises:
            UserError: A graded file cannot be read, or none of its dialogues has a reward.
        """
        simulation = next(iter(self.simulations.values()))
        prompts = {"agent_prompt": simulation.agent_prompt, "human_prompt": simulation.human_prompt}
        hashes = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in prompts.items() if text}
        settings = {"temperature": self.sampling.temperature, "top_p": 1.0, "max_tokens": self.sampling.max_tokens}
        settings |= {name: getattr(self.collection, name) for name in ("max_turns", "dialogues_per_task")}
        request = self.wanted.model_request or {}
        others = {name: value for name, value in request.items() if name not in settings}
        graded = {name: self.file(name, "graded.jsonl") for name in self.simulations}
        manifests = [read_manifest(path) or {} for path in graded.values()]
        content = [[task.problem_description, task.ground_truth, task.test_cases] for task in self.tasks]
        return {
            "form": FORM,
            "date": max(manifest.get("finished", "") for manifest in manifests),
            "version": sweet_rl.__version__,
            "task_type": self.domain.name,
            "measure": "similarity" if self.domain.draws_pages else "success",
            "protocol": {"name": self.domain.protocol, "files": dict(self.domain.protocol_files) or hashes},
            "human": simulation.human_identity | {"model": self.wanted.human},
            "sampling": settings | {name: request[name] for name in settings if name in request},
            "grader": read_graded(str(graded[self.wanted.model[0]])).grader,
            "tasks": {
                "file": self.tasks_file if is_on_hub(self.tasks_file) else Path(self.tasks_file).name,
                "sha256": hash_input(self.tasks_file),
                "number": len(self.tasks),
                "content": hash_rows(content)[:16],
            },
            "models": [
                {"name": name, "request": others} | model_figures(path) | self._serving(name)
                for name, path in graded.items()
            ],
            "browser": manifests[0].get("settings", {}).get("browser") if self.domain.draws_pages else None,
        }

    def _serving(self, model: str) -> dict[str, list[str]]:
        """Other names that replies had for a model, and what its server refused, from the manifest of its dialogues."""
        summary = (read_manifest(self.file(model, "jsonl")) or {}).get("summary", {})
        found = summary.get("agent") or summary.get("agent and human") or {}
        return {name: found[name] for name in ("served_as", "left_out") if name in found}


def model_figures(path: Path) -> dict[str, Any]:
    """The figures of one model from its graded dialogues.

    Returns:
        `score` over the graded dialogues; `failed_as_0`, in which a failed dialogue counts as a reward of 0; the number
        of `dialogues`, of `failed` ones, and of those `excluded` because they cannot be graded; the mean of `turns`
        and of `leaks_per_dialogue`; and for code the share of `tests_passed`.

    Raises:
        UserError: No dialogue has a reward.
    """
    dialogues = read_records(path, Trajectory)
    summary = summarise_rewards(dialogues)
    measure = "cosine_similarity" if "cosine_similarity" in summary else "success"
    with_failed: dict[str, list[float]] = {}
    for one in dialogues:
        reward = 0.0 if one.ending == "failed" else one.reward
        if reward is not None:
            value = float(reward == 1.0) if measure == "success" else reward
            with_failed.setdefault(one.task.id, []).append(value)
    failed = sum(summary["failed_dialogues"].values())
    figures = {
        "score": summary[measure],
        "failed_as_0": bootstrap_interval(with_failed).to_dict(),
        "dialogues": len(dialogues),
        "failed": failed,
        "excluded": len(dialogues) - failed - summary["graded"],
        "turns": sum(one.turns for one in dialogues) / len(dialogues),
        "leaks_per_dialogue": sum(one.leaks or 0 for one in dialogues) / len(dialogues),
    }
    if "tests_passed" in summary:
        figures["tests_passed"] = summary["tests_passed"]["mean"]
    return figures


def check_grading(domain: Domain, grading: CodeGrading | PageGrading, tasks: Sequence[Task]) -> None:
    """Check, before anything is paid for, that this machine can grade: sandbox; or encoder, browser, reference pages.

    Raises:
        UserError: It cannot, or no reference page gives a picture.
    """
    jobs: list[tuple[Task, str | None]] = [(tasks[0], tasks[0].ground_truth)]
    if domain.draws_pages:
        jobs += [(task, None) for task in tasks[1:]]  # only their reference pages are drawn, once, and kept
    with domain.make_grader(grading) as grader:
        print(grader.describe(), flush=True)
        grades = list(grader.grade_many(progress_bar(jobs, desc="references", unit=" references")))
    if machine := next((grade.machine for grade in grades if grade.machine), None):
        raise UserError(f"answers cannot be graded on this machine: {machine}")
    reasons = [grade.ungradable for grade in grades if grade.ungradable]
    if domain.draws_pages and reasons:
        named = f"{len(reasons)} of {len(jobs)} reference pages give no picture (the first: {reasons[0]})"
        if len(reasons) == len(jobs):
            raise UserError(f"{named}: check the tasks.")
        print(printable(f"{named}; they are excluded"))


def _of_other_dialogues(graded: Path, played: Path) -> bool:
    """Whether the grades are of dialogues of which some were played again since (--retry_failed)."""
    manifest = read_manifest(graded)
    return manifest is not None and hash_input(played) not in manifest["inputs"].values()
