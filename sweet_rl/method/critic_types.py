"""The critics that `--critic_type` names: four built-in ones, or a user's file; and the flags that choose one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sweet_rl.method import judge, pmi, sweet_critic, value_critic
from sweet_rl.method.critics import CheckedCritic, CriticType
from sweet_rl.method.sweet_critic import SweetSettings
from sweet_rl.models.weights import check_loadable, model_input
from sweet_rl.runs.cli import build, to_settings
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.user_file import errors_named, load_from_file

CRITICS = {
    "log_ratio": sweet_critic.CRITIC,
    "pmi": pmi.CRITIC,
    "value": value_critic.CRITIC,
    "judge": judge.CRITIC,
}


SHARED = ("model_id", "hostname", "tokenizer", "api_key_variable")
"""Flags of the SWEET critic that other critics take too, if they have such a setting."""


@dataclass(frozen=True)
class ChosenCritic:
    """A critic by name with its settings, checked when they are first used. It can be sent to another process.

    Attributes:
        critic_type: Name in `CRITICS`, or path of a Python file with a CRITIC.
        given: Values of settings by name; the others have their defaults.
    """

    critic_type: str = "log_ratio"
    given: Mapping[str, Any] = field(default_factory=dict)

    def __reduce__(self) -> tuple:  # because a class of a user's file cannot be unpickled by name
        return ChosenCritic, (self.critic_type, dict(self.given))

    @cached_property
    def kind(self) -> CriticType:
        """The kind of critic. Raises UserError if there is none of this name, or its file cannot be used."""
        return load_critic_type(self.critic_type)

    @cached_property
    def settings(self) -> Any:
        """The critic's own settings. Raises UserError if one is unknown, missing, or of another type."""
        kind = self.kind
        with self._errors_named():
            return build(kind.settings, self.given, f"--critic_type {self.critic_type}")

    def load(self) -> CheckedCritic:
        """Load the critic. Raises UserError if a model is not there, the critic has no `scores`, or its file fails."""
        kind, settings = self.kind, self.settings
        with self._errors_named():
            return CheckedCritic(kind.load(settings), self.critic_type, self._source)

    def seeded(self, seed: int) -> ChosenCritic:
        """The same with this random seed, if it has such a setting that is not given."""
        if "seed" in self.given or "seed" not in {one.name for one in fields(self.kind.settings)}:
            return self
        return replace(self, given={**self.given, "seed": seed})

    def to_settings(self) -> dict[str, Any]:
        """What the scores depend on, for a manifest. The content of a user's file is one of `inputs`."""
        settings = self.settings
        with self._errors_named():
            own = settings.to_settings() if hasattr(settings, "to_settings") else to_settings(settings)
        if self.critic_type in CRITICS:
            return {"critic_type": self.critic_type, **own}
        return {"critic_type": Path(self.critic_type).name, "critic_settings": own}

    def models(self) -> list[str]:
        """Names of the language models that the critic loads in its process."""
        settings = self.settings
        with self._errors_named():
            return settings.models() if hasattr(settings, "models") else []

    def check_models(self) -> None:
        """Raise UserError if a model cannot be loaded."""
        for model in self.models():
            check_loadable(model)

    def inputs(self) -> list[str]:
        """Paths of all files and folders that are read: the critic's own file, its models, and what it names."""
        own = [] if self.critic_type in CRITICS else [self.critic_type]
        folders, settings = [path for model in self.models() if (path := model_input(model))], self.settings
        with self._errors_named():
            return own + folders + (settings.inputs() if hasattr(settings, "inputs") else [])

    @property
    def _source(self) -> Path | None:
        """The user's file, resolved; None for a built-in critic."""
        return None if self.critic_type in CRITICS else Path(self.critic_type).resolve()

    def _errors_named(self) -> AbstractContextManager[None]:
        """Errors of a user's file raised inside become a UserError with file and line."""
        return nullcontext() if self._source is None else errors_named("--critic_type", self._source)


def load_critic_type(name: str) -> CriticType:
    """Return the kind of critic that `--critic_type` names.

    Args:
        name: Key of `CRITICS`, or path of a Python file that defines `CRITIC`.

    Raises:
        UserError: There is no such name or file, the file cannot be imported, or its `CRITIC` is no `CriticType`.
    """
    if name in CRITICS:
        return CRITICS[name]
    if not name.endswith(".py"):
        raise UserError(
            f"--critic_type is {name!r}; it must be one of {', '.join(CRITICS)}, or the path of a Python file with a "
            "CRITIC (docs/critics.md; lab/critics has some)."
        )
    found = load_from_file(name, "CRITIC", "--critic_type")
    if not isinstance(found, CriticType):
        raise UserError(
            f"--critic_type: {name} has a CRITIC that is a {type(found).__name__}; it must end with "
            "CRITIC = CriticType(Settings, Critic) (docs/critics.md)."
        )
    return found


@dataclass(frozen=True)
class CriticFlags(SweetSettings):
    """The critic: the SWEET critic with these settings, or one of another type with `critic_settings`.

    Of the SWEET critic's flags a critic of another type takes those of SHARED, if it has such settings.

    Attributes:
        model_id: Model of the critic, which every built-in one needs: directory or hub name; a server's name for it
            if it is on a server (`hostname`).
        critic_type: Critic: log_ratio (the SWEET critic: advantage, equation 3 of the paper), pmi (one language model
            with and without the reference solution, untrained), value (model of train_value.py), judge (language model
            that compares candidates, knockout), or the path of a Python file with a CRITIC (docs/critics.md).
        critic_settings: Settings of the critic by name, as JSON, or a mapping in a config; for every critic but
            log_ratio, whose settings are flags.

    Raises:
        UserError: A setting that the critic does not have, or a missing one.
    """

    model_id: str = ""  # because a critic of a file may have none
    critic_type: str = "log_ratio"
    critic_settings: dict | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.chosen.settings  # so that wrong settings are refused at once

    @cached_property
    def chosen(self) -> ChosenCritic:
        """The critic with the settings that the flags and `critic_settings` give."""
        own = [one for one in fields(self) if one.name not in ("critic_type", "critic_settings")]
        flags = {one.name: value for one in own if (value := getattr(self, one.name)) != one.default}
        named = self.critic_settings or {}
        chosen = ChosenCritic(self.critic_type, {**flags, **named})
        kind = f"--critic_type {self.critic_type}"
        known = {one.name: one for one in fields(chosen.kind.settings) if one.init}
        for name, value in flags.items():
            if name not in known:
                raise UserError(f"{kind} has no {name}. It has: {', '.join(known) or 'none'}.")
            if self.critic_type != "log_ratio" and name not in SHARED:
                raise UserError(
                    f"--{name} is a flag of --critic_type log_ratio. For {kind} give it as "
                    f"--critic_settings '{json.dumps({name: value})}'."
                )
            if name in named:
                raise UserError(f"--{name} is in --critic_settings too: give it once.")
        for name, one in known.items():
            if one.default is one.default_factory is MISSING and name not in chosen.given:
                given_as = "--model_id" if name == "model_id" else f"{name!r} in --critic_settings"
                raise UserError(f"missing: {given_as} (no default), for {kind}. See --help.")
        return chosen
