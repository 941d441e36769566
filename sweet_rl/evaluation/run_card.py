"""The run card: what a figure of ColBench was measured with, so that others can tell whether theirs compares.

`sweet-rl colbench` writes one (`results.json`), and `sweet-rl leaderboard` reads many.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, TypedDict

import sweet_rl
from sweet_rl.dialogues.domain import Domain
from sweet_rl.evaluation.graded_file import read_graded
from sweet_rl.evaluation.statistics import Estimate, bootstrap_interval, task_means
from sweet_rl.models.base import Sampling
from sweet_rl.runs.errors import UserError, first_line
from sweet_rl.runs.manifest import hash_input, read_manifest
from sweet_rl.runs.names import is_on_hub
from sweet_rl.runs.records import Task, TrajectoryFile, hash_rows
from sweet_rl.runs.records.checks import read_fields
from sweet_rl.runs.records.files import parse_row
from sweet_rl.runs.redaction import redacted_values

FORM = 1  # of a card's fields
SUCCESS, SIMILARITY = "success", "similarity"


class Figure(TypedDict):
    """A mean over tasks with its 95 % interval, as shares of 1."""

    mean: float
    low: float
    high: float
    tasks: int


class _ModelRow(TypedDict):
    name: str
    request: dict
    score: Figure
    failed_as_0: Figure
    dialogues: int
    failed: int
    excluded: int
    turns: float
    leaks_per_dialogue: float


class ModelRow(_ModelRow, total=False):
    """The figures of one model.

    `score` is over the graded dialogues; in `failed_as_0` a failed dialogue counts as a reward of 0. `excluded` are
    those that cannot be graded: the reference fails, or the machine did. `tests_passed` is the mean share of tests.
    `served_as` are names that the server's replies had for the model, if one is another name; `left_out` is what was
    not sent because the server refused it.
    """

    tests_passed: float
    served_as: list[str]
    left_out: list[str]


class Tasks(TypedDict):
    """The tasks: file and hash, number of those that were used, and a hash of their content alone."""

    file: str
    sha256: str
    number: int
    content: str


class Human(TypedDict):
    """The simulated human: name for people, hash of all that its replies depend on, and its model's name."""

    name: str
    hash: str
    model: str


class Protocol(TypedDict):
    """The protocol: its name, and the SHA-256 of its files or prompts by name."""

    name: str
    files: dict[str, str]


@dataclass(frozen=True)
class RunCard:
    """What was measured, and with what.

    Attributes:
        form: Number of the form of these fields.
        date: Time at which the last model was graded, UTC.
        version: Version of this package.
        task_type: Domain: code or html.
        measure: What `score` is: success or similarity.
        protocol: Protocol of the dialogues.
        human: Simulated human.
        sampling: Sampling settings of the models, turns and dialogues per task.
        grader: How answers were graded: settings, and for pages the encoder.
        browser: Browser that drew the pages; None if none did.
        tasks: The tasks.
        models: Figures of the models.
    """

    form: int
    date: str
    version: str
    task_type: str
    measure: str
    protocol: Protocol
    human: Human
    sampling: dict
    grader: dict
    tasks: Tasks
    models: list[ModelRow]
    browser: str | None = None

    def text(self) -> str:
        """The card as it is written to a file."""
        return json.dumps(redacted_values(asdict(self)), indent=2, ensure_ascii=False) + "\n"


def make_card(
    domain: Domain,
    graded: Mapping[str, Path],
    human: Human,
    prompts: Mapping[str, str],
    sampling: Mapping[str, Any],
    request: Mapping[str, Any] | None,
    tasks: Sequence[Task],
    tasks_file: str,
    serving: Mapping[str, Mapping[str, list[str]]],
) -> RunCard:
    """Return the card of models that were evaluated together.

    Args:
        domain: Domain of the tasks.
        graded: Graded file of each model by its name.
        human: The simulated human.
        prompts: Instructions of both sides by name, which stand for the files of a protocol that has none.
        sampling: Sampling settings. Fields of `request` that have the same names override them.
        request: Fields of the request body of the models.
        tasks: Tasks that were used.
        tasks_file: File or name on the hub that they come from.
        serving: Fields `served_as` and `left_out` of a model, if it has them, by its name.

    Raises:
        UserError: A file cannot be read, or none of its dialogues has a reward.
    """
    content = hash_rows([[task.problem_description, task.ground_truth, task.test_cases] for task in tasks])
    manifests = [read_manifest(path) or {} for path in graded.values()]
    own = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in prompts.items() if text}
    others = {name: value for name, value in (request or {}).items() if name not in sampling}
    first = next(iter(graded.values()))
    browser = manifests[0].get("settings", {}).get("browser") if domain.draws_pages else None
    return RunCard(
        form=FORM,
        date=max(manifest.get("finished", "") for manifest in manifests),
        version=sweet_rl.__version__,
        task_type=domain.name,
        measure=SIMILARITY if domain.draws_pages else SUCCESS,
        protocol={"name": domain.protocol, "files": dict(domain.protocol_files) or own},
        human=human,
        sampling={**sampling, **{name: value for name, value in (request or {}).items() if name in sampling}},
        grader=dict(read_graded(str(first)).grader),
        browser=browser,
        tasks={
            "file": tasks_file if is_on_hub(tasks_file) else Path(tasks_file).name,
            "sha256": hash_input(tasks_file),
            "number": len(tasks),
            "content": content[:16],
        },
        models=[_model_row(name, path, domain, others, serving.get(name, {})) for name, path in graded.items()],
    )


def sampling_facts(sampling: Sampling, max_turns: int, dialogues_per_task: int) -> dict[str, Any]:
    """The field `sampling` of a card. Seeds are not in it: a figure does not compare worse for another one."""
    facts = asdict(sampling)
    return {name: facts[name] for name in ("temperature", "top_p", "max_tokens")} | {
        "max_turns": max_turns,
        "dialogues_per_task": dialogues_per_task,
    }


def _model_row(
    name: str, path: Path, domain: Domain, request: dict[str, Any], serving: Mapping[str, list[str]]
) -> ModelRow:
    graded: dict[str, list[float]] = {}
    with_failed: dict[str, list[float]] = {}
    rewards: dict[str, list[float]] = {}
    dialogues = failed = excluded = turns = leaks = 0
    for trajectory in TrajectoryFile(str(path)).scan():
        task = trajectory.task.id
        dialogues += 1
        turns += trajectory.turns
        leaks += trajectory.leaks or 0
        if trajectory.ending == "failed":
            failed += 1
            with_failed.setdefault(task, []).append(0.0)
        elif trajectory.reward is None:
            excluded += 1
        else:
            value = trajectory.reward if domain.draws_pages else float(trajectory.reward == 1.0)
            graded.setdefault(task, []).append(value)
            with_failed.setdefault(task, []).append(value)
            rewards.setdefault(task, []).append(trajectory.reward)
    row: ModelRow = {
        "name": name,
        "request": request,
        "score": _figure(bootstrap_interval(graded)),
        "failed_as_0": _figure(bootstrap_interval(with_failed)),
        "dialogues": dialogues,
        "failed": failed,
        "excluded": excluded,
        "turns": turns / dialogues,
        "leaks_per_dialogue": leaks / dialogues,
    }
    if "served_as" in serving:
        row["served_as"] = serving["served_as"]
    if "left_out" in serving:
        row["left_out"] = serving["left_out"]
    if not domain.draws_pages:
        row["tests_passed"] = fmean(task_means(rewards).values())
    return row


def _figure(estimate: Estimate) -> Figure:
    return {"mean": estimate.mean, "low": estimate.low, "high": estimate.high, "tasks": estimate.tasks}


def read_card(path: str | Path) -> RunCard:
    """Read a card that somebody has published.

    Raises:
        UserError: The file cannot be read, is no card, or a field has another form.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read as a run card: {first_line(error)}.") from error
    row = parse_row(content, str(path))
    if row.get("form") != FORM:
        raise UserError(
            f"{path} is no run card of form {FORM} (found: {row.get('form')!r}). Cards are the files results.json of "
            "`sweet-rl colbench`."
        )
    card = RunCard(**read_fields(row, str(path), RunCard))
    if not card.models:
        raise UserError(f"{path}: the field 'models' is empty; a card has at least one model.")
    for number, model in enumerate(card.models):
        for name, figure in (("score", model["score"]), ("failed_as_0", model["failed_as_0"])):
            if not 0 <= figure["low"] <= figure["mean"] <= figure["high"] <= 1:
                raise UserError(
                    f"{path}, models[{number}], {name}: {figure} is no mean from 0 to 1 inside its interval."
                )
        if not 0 <= model.get("tests_passed", 0) <= 1:
            raise UserError(f"{path}, models[{number}], tests_passed: {model['tests_passed']} is no share from 0 to 1.")
        counts = {name: model[name] for name in ("dialogues", "failed", "excluded", "turns", "leaks_per_dialogue")}
        for name, count in counts.items():
            if count < 0:
                raise UserError(f"{path}, models[{number}], {name}: {count} is below 0.")
    return card
