"""What a critic is, how it is asked, and how `--critic_type` chooses one: a built-in one, or a user's file.

The flags (`CriticFlags`) give a `ChosenCritic`: a name and settings. Its `kind` is a `CriticType`; `load` gives the
critic itself as a `CheckedCritic`. docs/critics.md shows a critic of 15 lines.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from sweet_rl.method.judge import JudgeSettings, load_judge
from sweet_rl.method.sweet_critic import PmiSettings, SweetSettings, load_pmi, load_sweet_critic
from sweet_rl.method.value_critic import ValueCriticSettings, load_value_critic
from sweet_rl.runs.cli import build, to_settings
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import TurnCandidates
from sweet_rl.runs.user_file import named_or_loaded


class Critic(Protocol):
    """Scores the candidates of turns. Within a turn, higher is better; scores of different turns are not comparable.

    A critic needs the method `scores` only. It may also have:

    - `eos_text`: Text that ends a turn, for candidates whose file does not name it.
    - `turns_per_call`: Number of records that one call of `scores` should get; 64 by default.
    - `calls_at_once`: Number of calls of `scores` that may be in progress at the same time; 1 by default.
    - `chat`: `ChatFormat` that writes the prompts of turns that were stored without one. Otherwise these stay empty.
    - `token_credit(records)`: For each record and candidate a dict, for the viewer (`LogRatioCritic.token_credit`).
    - `close()`: Releases what the critic holds.
    """

    def scores(self, records: Sequence[TurnCandidates]) -> list[list[float]] | Awaitable[list[list[float]]]:
        """Return for each record one finite number per candidate, in the order of `additional_outputs`.

        May be a coroutine function; a plain function is called in a thread. The records must not be changed.

        Raises:
            UserError: A record cannot be scored. The message names it.
            ModelError: A server failed.
        """
        ...


class CheckedCritic:
    """A critic with defaults for the parts that it does not have, and with scores that are checked.

    Args:
        critic: The critic.
        name: Its `--critic_type`, for messages.
    """

    def __init__(self, critic: Critic, name: str = "critic") -> None:
        self.critic, self.name = critic, name
        self.eos_text: str | None = getattr(critic, "eos_text", None)
        self.turns_per_call: int = getattr(critic, "turns_per_call", 64)
        self.calls_at_once: int = getattr(critic, "calls_at_once", 1)
        self.chat = getattr(critic, "chat", None)
        self._calls = asyncio.Semaphore(self.calls_at_once)

    async def scores(self, records: Sequence[TurnCandidates]) -> list[list[float]]:
        """Return the critic's scores. Raises UserError unless there is one finite number per candidate."""
        scores = [list(map(float, values)) for values in await self._call("scores", records)]
        if len(scores) != len(records):
            raise UserError(f"--critic_type {self.name}: scores() gave {len(scores)} lists for {len(records)} records.")
        for record, values in zip(records, scores, strict=True):
            count = len(record.additional_outputs)
            if len(values) != count or not all(map(math.isfinite, values)):
                raise UserError(
                    f"--critic_type {self.name}: scores() gave {values} for the {count} candidates of {record.id!r}; "
                    "expected a finite number for each."
                )
        return scores

    async def token_credit(self, records: Sequence[TurnCandidates]) -> list[list[dict[str, Any]]]:
        """Return the critic's credit by token; the scores alone if the critic does not offer it."""
        if getattr(self.critic, "token_credit", None):
            return await self._call("token_credit", records)
        return [[{"advantage": score} for score in scores] for scores in await self.scores(records)]

    async def close(self) -> None:
        """Release what the critic holds."""
        if hasattr(self.critic, "close"):
            await self._call("close")

    async def _call(self, name: str, *arguments: Any) -> Any:
        """Call a method of the critic in a thread; what can be awaited is awaited here."""
        method = getattr(self.critic, name)

        def call() -> Any:
            try:
                return method(*arguments)
            except StopIteration as error:  # asyncio would wait for ever
                raise RuntimeError("the critic raised StopIteration") from error

        async with self._calls:
            result = await asyncio.to_thread(call)
            return await result if inspect.isawaitable(result) else result


@dataclass(frozen=True)
class CriticType:
    """A kind of critic: what a critic's file defines as `CRITIC`.

    The settings may have two methods: `inputs()` returns the paths of the files and model folders that are read (they
    are hashed), and `to_settings()` what the manifest records, by default all fields that are not UNRECORDED.

    Attributes:
        settings: Dataclass of the settings. Its fields are checked against their annotations.
        load: The class of the critic, or a function: called with the settings, it returns the critic.
        compares: Whether scores need several candidates of a turn, so that a single turn cannot be scored.
    """

    settings: type
    load: Callable[[Any], Critic]
    compares: bool = False


CRITICS = {
    "log_ratio": CriticType(SweetSettings, load_sweet_critic),
    "pmi": CriticType(PmiSettings, load_pmi),
    "value": CriticType(ValueCriticSettings, load_value_critic),
    "judge": CriticType(JudgeSettings, load_judge, compares=True),
}


@dataclass(frozen=True)
class ChosenCritic:
    """A critic by name with its settings, checked when they are first used.

    Attributes:
        critic_type: Name in `CRITICS`, or path of a Python file with a CRITIC.
        given: Values of settings by name; the others have their defaults.
    """

    critic_type: str = "log_ratio"
    given: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def kind(self) -> CriticType:
        """The kind of critic. Raises UserError if there is none of this name, or its file cannot be used."""
        return named_or_loaded(self.critic_type, CRITICS, "CRITIC", "--critic_type", CriticType, "docs/critics.md")

    @cached_property
    def settings(self) -> Any:
        """The critic's own settings. Raises UserError if one is unknown, missing, or of another type."""
        return build(self.kind.settings, self.given, f"--critic_type {self.critic_type}")

    def load(self) -> CheckedCritic:
        """Load the critic. Raises UserError if a model is not there."""
        return CheckedCritic(self.kind.load(self.settings), self.critic_type)

    def check_temperature(self, temperature: float, where: str) -> None:
        """Raise UserError, naming `where`, if the reference is the log-probs of sampling at a temperature other than 1,
        which are not the model's."""
        sampled = isinstance(self.settings, SweetSettings) and self.settings.reference_kind == "sampled"
        if sampled and temperature != 1.0:
            raise UserError(
                f"{where}: candidates sampled at temperature {temperature} have log-probs that are not the model's. "
                "Give the reference seed_without_c, or sample at temperature 1."
            )

    def to_settings(self) -> dict[str, Any]:
        """What the scores depend on, for a manifest. The content of a user's file is one of `inputs`."""
        settings = self.settings
        recorded = settings.to_settings() if hasattr(settings, "to_settings") else to_settings(settings)
        if self.critic_type in CRITICS:
            return {"critic_type": self.critic_type, **recorded}
        return {"critic_type": Path(self.critic_type).name, "critic_settings": recorded}

    def inputs(self) -> list[str]:
        """Paths of all files and folders that are read: the critic's own file, and what its settings name."""
        file = [] if self.critic_type in CRITICS else [self.critic_type]
        return file + (self.settings.inputs() if hasattr(self.settings, "inputs") else [])


@dataclass(frozen=True)
class CriticFlags(SweetSettings):
    """The critic. Given flags and `critic_settings` are its settings. A flag that this critic does not have is refused.

    Attributes:
        model_id: Model of the critic, which every built-in one needs: directory or hub name; a server's name for it
            if it is on a server (`hostname`).
        critic_type: Critic: log_ratio (the SWEET critic: advantage, equation 3 of the paper), pmi (one language model
            with and without the reference solution, untrained), value (model of train_value.py), judge (language model
            that compares candidates, knockout), or the path of a Python file with a CRITIC (docs/critics.md).
        critic_settings: Further settings of the critic by name, as JSON, or a mapping in a config.

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
        given = {flag.name: getattr(self, flag.name) for flag in fields(self)}
        flags = {flag.name: given[flag.name] for flag in fields(SweetSettings) if given[flag.name] != flag.default}
        if not self.model_id:
            del flags["model_id"]
        settings = self.critic_settings or {}
        if both := sorted(flags.keys() & settings.keys()):
            raise UserError(f"--{both[0]} is in --critic_settings too: give it once.")
        return ChosenCritic(self.critic_type, {**flags, **settings})
