"""The settings that are tried for each method: the same number for all, each as flags of named steps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sweet_rl.errors import UserError

Settings = dict[str, dict[str, Any]]
"""{step: {flag: value}}; a step is named after the file or model that it makes."""


@dataclass(frozen=True)
class Method:
    """A method and the settings to try for it.

    Attributes:
        name: as tables call it.
        run: name of the trained agent.
        tries: settings, all of the same flags; of equal ones the first is chosen.
    """

    name: str
    run: str
    tries: tuple[Settings, ...]


def read_tries(path: str | Path) -> list[Method]:
    """The methods of a YAML file: {name: {run: RUN, settings: [step.flag, ...], tries: [[value, ...], ...]}}.

    Every try gives a value to every flag of its method, so that what is tried does not depend on other files.

    Raises:
        UserError: the file is not of this form, the numbers of tries differ, a method tries the same settings twice,
            or two methods set the same step, which then could not have the settings of both.
    """
    try:
        read = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"{path}: the settings to try cannot be read: {error}") from error
    if not isinstance(read, dict) or not read:
        raise UserError(f"{path}: expected methods by name, each with run, settings and tries.")
    methods = [_method(name, entry, f"{path}, {name}") for name, entry in read.items()]
    counts = {method.name: len(method.tries) for method in methods}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise UserError(f"{path}: every method must have the same number of tries, but there are: {found}.")
    owners: dict[str, str] = {}
    for method in methods:
        for step in method.tries[0]:
            if owners.setdefault(step, method.name) != method.name:
                raise UserError(
                    f"{path}: {owners[step]} and {method.name} both set {step}. Give each method a step of its own."
                )
    return methods


def _method(name: str, entry: Any, where: str) -> Method:
    if not isinstance(entry, dict) or entry.keys() != {"run", "settings", "tries"}:
        raise UserError(f"{where}: expected run, settings (step.flag, ...) and tries (rows of values).")
    flags, rows = entry["settings"], entry["tries"]
    if not flags or not all(isinstance(flag, str) and flag.count(".") == 1 for flag in flags):
        raise UserError(f"{where}, settings: expected step.flag, as in critic.learning_rate, found {flags}.")
    tries: list[Settings] = []
    for number, row in enumerate(rows or [], start=1):
        if not isinstance(row, list) or len(row) != len(flags):
            raise UserError(f"{where}, try {number}: expected a value for each of {', '.join(flags)}; found {row}.")
        settings: Settings = {}
        for flag, value in zip(flags, row, strict=True):
            step, _, option = flag.partition(".")
            settings.setdefault(step, {})[option] = value
        if settings in tries:
            raise UserError(f"{where}, try {number}: the same settings as try {tries.index(settings) + 1}.")
        tries.append(settings)
    if not tries:
        raise UserError(f"{where}: there are no tries.")
    return Method(name, entry["run"], tuple(tries))


def chosen_settings(path: str | Path) -> Settings:
    """The chosen settings of all methods in a log of tries (`sweet_rl.evaluation.tries`), by step.

    Raises:
        UserError: the file is no such log, or all tries of a method failed.
    """
    try:
        methods: Mapping[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))["methods"]
        chosen = {name: [t["settings"] for t in method["tries"] if t["chosen"]] for name, method in methods.items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is not a log of tries ({error!r}). `reproduce.sh settings` makes one.") from error
    if failed := [name for name, settings in chosen.items() if not settings]:
        raise UserError(f"{path}: every try of {', '.join(failed)} failed: give it other settings to try.")
    return {step: flags for (settings,) in chosen.values() for step, flags in settings.items()}
