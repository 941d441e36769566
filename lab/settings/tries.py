"""Settings that are tried for each method, the same number for all, and the choice among them by validation tasks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from sweet_rl.evaluation.budget import behind, cpu_seconds_of
from sweet_rl.evaluation.compare import compare
from sweet_rl.evaluation.graded_file import read_graded
from sweet_rl.evaluation.statistics import Estimate, interval_text
from sweet_rl.evaluation.table import Table
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.texts import write_texts

Settings = dict[str, dict[str, Any]]
"""{step: {flag: value}}; a step is named after the file or model that it makes."""


@dataclass(frozen=True)
class Try:
    """Settings of a method, and what came of them.

    Attributes:
        method: Name of the method, as tables call it.
        run: Name of the agent that it trains.
        number: Number of the try, from 1.
        settings: Settings of its steps.
        failed: Whether a step ended with an error.
        cpu_seconds: CPU seconds of all steps behind it, shared ones included, over all seeds.
        result: Main measure on the validation tasks with its interval; None if the try failed.
        by_seed: Main measure of each seed.
        chosen: Whether the method takes these settings.
    """

    method: str
    run: str
    number: int
    settings: Settings
    failed: bool = False
    cpu_seconds: float = 0.0
    result: Estimate | None = None
    by_seed: tuple[float, ...] = ()
    chosen: bool = False

    def to_dict(self) -> dict:
        status = "failed" if self.failed else "finished"
        found = {"number": self.number, "settings": self.settings, "status": status, "chosen": self.chosen}
        found |= {"result": self.result and self.result.to_dict(), "by_seed": list(self.by_seed)}
        return found | {"cpu_seconds": round(self.cpu_seconds, 1)}


def read_tries(path: str | Path) -> list[Try]:
    """The tries of a YAML file: {method: {run: RUN, settings: [step.flag, ...], tries: [[value, ...], ...]}}.

    Raises:
        UserError: The file is not of this form, the numbers of tries differ, a method tries the same settings twice, or
            two methods set the same step, which then could not have the settings of both.
    """
    try:
        read = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"{path}: the settings to try cannot be read: {error}") from error
    if not isinstance(read, dict) or not read:
        raise UserError(f"{path}: expected methods by name, each with run, settings and tries.")
    methods = {name: _tries_of(name, entry, f"{path}, {name}") for name, entry in read.items()}
    if len({len(tries) for tries in methods.values()}) > 1:
        found = ", ".join(f"{name} {len(tries)}" for name, tries in methods.items())
        raise UserError(f"{path}: every method must have the same number of tries, but there are: {found}.")
    owners: dict[str, str] = {}
    for name, tries in methods.items():
        for step in tries[0].settings:
            if owners.setdefault(step, name) != name:
                raise UserError(
                    f"{path}: {owners[step]} and {name} both set {step}. Give each method a step of its own."
                )
    return [one for tries in methods.values() for one in tries]


def _tries_of(name: str, entry: Any, where: str) -> list[Try]:
    if not isinstance(entry, dict) or entry.keys() != {"run", "settings", "tries"}:
        raise UserError(f"{where}: expected run, settings (step.flag, ...) and tries (rows of values).")
    flags, rows = entry["settings"], entry["tries"]
    if not flags or not all(isinstance(flag, str) and flag.count(".") == 1 for flag in flags):
        raise UserError(f"{where}, settings: expected step.flag, as in critic.learning_rate, found {flags}.")
    tries: list[Try] = []
    for number, row in enumerate(rows or [], start=1):
        if not isinstance(row, list) or len(row) != len(flags):
            raise UserError(f"{where}, try {number}: expected a value for each of {', '.join(flags)}; found {row}.")
        settings: Settings = {}
        for flag, value in zip(flags, row, strict=True):
            step, _, option = flag.partition(".")
            settings.setdefault(step, {})[option] = value
        same = [one.number for one in tries if one.settings == settings]
        if same:
            raise UserError(f"{where}, try {number}: the same settings as try {same[0]}.")
        tries.append(Try(name, entry["run"], number, settings))
    if not tries:
        raise UserError(f"{where}: there are no tries.")
    return tries


def write_log(path: str | Path, tries: Sequence[Try], graded: Sequence[Sequence[str]]) -> None:
    """Choose a try of each method, and write all tries to `path`.json and `path`.md, which are replaced.

    Args:
        path: Path of the log without its ending.
        tries: All tries. Of equally good ones of a method the first is chosen.
        graded: Graded dialogues of each try on the validation tasks, one file per seed; not read if it failed.
    """
    tries, seeds, measure, evaluated = list(tries), len(graded[0]), "success", 0
    ended = {f"{one.method} {one.number}": paths for one, paths in zip(tries, graded, strict=True) if not one.failed}
    if ended:
        runs = {name: [read_graded(path) for path in paths] for name, paths in ended.items()}
        comparison = compare(runs)
        measure, evaluated = comparison["measure"], comparison["tasks"]
        rows = {row["name"]: row for row in comparison["runs"]}
        for place, one in enumerate(tries):
            if row := rows.get(f"{one.method} {one.number}"):
                cpu_seconds = sum(map(cpu_seconds_of, {made for path in ended[row["name"]] for made in behind(path)}))
                by_seed = tuple(row[f"{measure}_by_seed"])
                tries[place] = replace(one, result=Estimate(**row[measure]), by_seed=by_seed, cpu_seconds=cpu_seconds)
    tries = choose(tries)
    log: dict[str, Any] = {"measure": measure, "validation_tasks": evaluated, "seeds": seeds, "methods": {}}
    for one in tries:
        log["methods"].setdefault(one.method, {"tries": []})["tries"].append(one.to_dict())
    texts = {f"{path}.json": json.dumps(log, indent=2, ensure_ascii=False) + "\n"}
    write_texts(texts | {f"{path}.md": as_markdown(tries, measure, evaluated, seeds)}, overwrite=True)


def choose(tries: Iterable[Try]) -> list[Try]:
    """The tries, of each method the best one chosen: the first of those with the highest result; none if all failed."""
    best: dict[str, Try] = {}
    for one in tries:
        if one.result is not None:
            before = best.get(one.method)
            if before is None or before.result is None or one.result.mean > before.result.mean + 1e-9:
                best[one.method] = one
    return [replace(one, chosen=best.get(one.method) == one) for one in tries]


def as_markdown(tries: Sequence[Try], measure: str, tasks: int, seeds: int) -> str:
    """A row per try; of the settings after a method's first those that differ from it."""
    cells = [["method", "try", f"{measure} %", "95 % interval", "CPU minutes", "settings", "chosen"]]
    firsts: dict[str, dict[str, object]] = {}
    for one in tries:
        flags = {f"{step}.{flag}": value for step, own in one.settings.items() for flag, value in own.items()}
        first = firsts.setdefault(one.method, flags)
        shown = {flag: value for flag, value in flags.items() if one.number == 1 or value != first[flag]}
        result = one.result
        cells.append(
            [
                *(one.method, str(one.number)),
                f"{100 * result.mean:.1f}" if result else "failed",
                interval_text(result.low, result.high) if result else "",
                f"{one.cpu_seconds / 60:.1f}",
                ("" if one.number == 1 else "as 1, ") + ", ".join(f"{flag} {value}" for flag, value in shown.items()),
                "yes" if one.chosen else "",
            ]
        )
    count = max(one.number for one in tries)
    text = f"Settings of every method: {count}; seeds of each: {seeds}; {tasks} validation tasks, which no table uses. "
    text += "CPU minutes: of all steps behind a try; tries share some of them."
    return f"{Table(cells, 4).markdown()}\n\n{text}\n"
