"""What a critic is, and how every critic is asked. docs/critics.md shows one of 15 lines."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sweet_rl.models.base import ModelError
from sweet_rl.runs.errors import ItemError, UserError
from sweet_rl.runs.records import TurnCandidates
from sweet_rl.runs.user_file import USER_ERRORS, error_in, finite_number, is_cancelled, shown


class Critic(Protocol):
    """Scores the candidates of turns. Within a turn, higher is better; scores of different turns are not comparable.

    A critic needs the method `scores` only. It may also have:

    - `eos_text`: Text that ends a turn, for candidates whose file does not name it.
    - `turns_per_call`: Number of records that one call of `scores` should get; 64 by default.
    - `calls_at_once`: Number of calls of `scores` that may be in progress at the same time; 1 by default.
    - `chat`: `ChatFormat` that lays out prompts that are not known. Without it they are empty.
    - `token_credit(records)`: For each record and candidate its score with the tokens it is made of, for the viewer.
    - `close()`: Releases what the critic holds.
    """

    def scores(self, records: Sequence[TurnCandidates]) -> list[list[float]] | Awaitable[list[list[float]]]:
        """Return for each record one score per candidate, in the order of `additional_outputs`.

        May be a coroutine function; a plain function is called in a thread.

        Raises:
            UserError: A record cannot be scored. The message names it.
            ModelError: A server failed.
        """
        ...


@dataclass(frozen=True)
class TokenCredit:
    """The score of a candidate and what it is made of.

    Attributes:
        score: The score.
        tokens: Text of each token.
        critic: Log-prob of each token under the critic, [L].
        reference: The same under the reference, [L]; None if it is known for other tokens or as a mean only.
    """

    score: float
    tokens: list[str]
    critic: np.ndarray
    reference: np.ndarray | None


@dataclass(frozen=True)
class CriticType:
    """A kind of critic: what a critic's file defines as `CRITIC`.

    The settings may have three methods: `models()` returns the names of the language models that the critic loads (they
    are checked before anything is written, hashed, and counted when GPUs are shared out), `inputs()` the paths of other
    files that it reads, and `to_settings()` what the manifest records, by default all fields that are not UNRECORDED.

    Attributes:
        settings: Dataclass of the settings. Its fields are checked against their annotations.
        load: The class of the critic, or a function: called with the settings, it returns the critic.
        compares: Whether scores need several candidates of a turn, so that a single turn cannot be scored.
    """

    settings: type
    load: Callable[[Any], Critic]
    compares: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.settings, type) and is_dataclass(self.settings)):
            raise UserError(f"CriticType: settings is {self.settings!r}; it must be a dataclass.")
        if not callable(self.load):
            raise UserError(f"CriticType: load is {self.load!r}; it must be a class or a function.")


class CheckedCritic:
    """A critic with defaults for the parts that it does not have, and with scores that are checked.

    A critic that is not of this package gets copies of the records. What a critic of a user's file raises is a
    ModelError that names the line.

    Args:
        critic: The critic.
        name: Its `--critic_type`, for messages.
        source: The user's file, resolved; None for a built-in critic.
    """

    def __init__(self, critic: Critic, name: str = "critic", source: Path | None = None) -> None:
        if not callable(getattr(critic, "scores", None)):
            raise UserError(f"--critic_type {name}: a {type(critic).__name__} has no method scores(records).")
        self.critic, self.name, self._source = critic, name, source
        self.eos_text: str | None = getattr(critic, "eos_text", None)
        self.turns_per_call: int = getattr(critic, "turns_per_call", 64)
        self.calls_at_once: int = getattr(critic, "calls_at_once", 1)
        self.chat = getattr(critic, "chat", None)
        for setting in ("turns_per_call", "calls_at_once"):
            if not isinstance(getattr(self, setting), int) or getattr(self, setting) < 1:
                raise UserError(
                    f"--critic_type {name}: {setting} is {shown(getattr(self, setting))}; it must be a whole number "
                    "above 0."
                )

    async def scores(self, records: Sequence[TurnCandidates]) -> list[list[float]]:
        """Return the critic's scores. Raises UserError unless there is one finite number per candidate."""
        found = await self._asked("scores", records, lambda score: finite_number(score) is not None, "a finite number")
        return [[float(score) for score in own] for own in found]

    async def token_credit(self, records: Sequence[TurnCandidates]) -> list[list[TokenCredit]] | None:
        """Return what the scores are made of; None if the critic does not offer it."""
        if not hasattr(self.critic, "token_credit"):
            return None
        found = await self._asked("token_credit", records, lambda one: isinstance(one, TokenCredit), "a TokenCredit")
        return [list(own) for own in found]

    async def close(self) -> None:
        """Release what the critic holds."""
        if hasattr(self.critic, "close"):
            await self._called(self.critic.close)

    def _handed(self, records: Sequence[TurnCandidates]) -> Sequence[TurnCandidates]:
        own = type(self.critic).__module__.startswith("sweet_rl.")
        return records if own else copy.deepcopy(records)

    async def _called(self, method: Callable[..., Any], *arguments: Any) -> Any:
        """Call a coroutine function, or a plain function in a thread."""
        if inspect.iscoroutinefunction(method):
            with self._named_errors():
                return await method(*arguments)
        return await asyncio.to_thread(self._call, method, *arguments)

    def _call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        with self._named_errors():  # in the thread, because asyncio cannot pass StopIteration on
            return method(*arguments)

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except (ItemError, UserError):
            raise
        except USER_ERRORS as error:
            if self._source is None or is_cancelled(error):
                raise
            raise ModelError("critic", error_in(self._source, error)) from error

    async def _asked(
        self, method: str, records: Sequence[TurnCandidates], valid: Callable[[Any], bool], kind: str
    ) -> Sequence[Sequence[Any]]:
        """What a method of the critic gives for each candidate. Raises UserError unless there is one valid value."""
        where, handed = f"--critic_type {self.name}: {method}(records)", self._handed(records)
        found = await self._called(getattr(self.critic, method), handed)
        if _texts(handed) != _texts(records):  # its values might be in another order
            raise UserError(f"{where} changed the records or their order; sort a copy.")
        given = _as_list(found)
        if given is None or len(given) != len(records):
            raise UserError(f"{where} gave {_counted(found)} for {len(records)} records; expected a list for each.")
        checked = []
        for record, values in zip(records, given, strict=True):
            count, own = len(record.additional_outputs), _as_list(values)
            if own is None or len(own) != count:
                raise UserError(f"{where} gave {_counted(values)} for the {count} candidates of {record.id!r}.")
            checked.append(own)
            for number, value in enumerate(own):
                if not valid(value):
                    raise UserError(
                        f"{where} gave {shown(value)} for candidate {number} of {record.id!r}; expected {kind}."
                    )
        return checked


def _texts(records: Sequence[TurnCandidates]) -> list[tuple[str, list[str]]]:
    return [(record.id, record.additional_outputs) for record in records]


def _as_list(found: Any) -> list[Any] | None:
    """The items of a list or an array of a user's critic, as many as it really has; None for anything else."""
    if not hasattr(found, "__len__") or isinstance(found, str | Mapping | Set):
        return None
    try:
        return list(found)
    except Exception:  # of an array without dimensions, or a user's class
        return None


def _counted(found: Any) -> str:
    given = _as_list(found)
    return shown(found) if given is None else f"{len(given)} values"
