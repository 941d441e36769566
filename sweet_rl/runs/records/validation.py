"""Values of JSON against types: pydantic checks them, and an error names the place, the field and what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from sweet_rl.runs.errors import RecordError

T = TypeVar("T")
_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def validated(kind: type[T], value: Any, where: str) -> T:
    """A value of JSON as a dataclass, TypedDict or any other type that pydantic knows.

    Args:
        kind: The type.
        value: One value of JSON.
        where: Its place, for the error.

    Raises:
        RecordError: The value is not of the type.
    """
    try:
        return _adapter(kind).validate_python(value)
    except ValidationError as error:
        raise RecordError(f"{where}: {_problem(error)}") from error


def check_lengths(logprobs: Any, token_ids: Any, where: str) -> None:
    """Raises RecordError unless there is one log-prob for each token id. A mean, and what is not known, passes."""
    if isinstance(logprobs, list) and isinstance(token_ids, list) and len(logprobs) != len(token_ids):
        raise RecordError(
            f"{where}: {len(logprobs)} log-probs for {len(token_ids)} token ids; there must be one for each. Was the "
            "file edited, or cut?"
        )


def shown(value: Any) -> str:
    """The first 80 characters of a value of JSON, for an error."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 80 else text[:77] + "..."


def _problem(error: ValidationError) -> str:
    """The first error of pydantic in a sentence."""
    errors = error.errors(include_url=False)
    kind, found, field = errors[0]["type"], errors[0]["input"], _field(errors[0]["loc"])
    if kind == "missing":
        names = dict(found)
        names |= names.pop("extra", {})
        have = ", ".join(map(repr, names)) or "none"
        return f"the field {field} is missing (fields found: {have}). Is this the right file for this step?"
    if not field:
        return f"found {shown(found)}, expected an object with named fields."
    expected = [
        one["msg"].removeprefix("Input ") for one in errors if _field(one["loc"]) == field
    ]  # of a union several
    return f"the field {field} is {shown(found)}; it {' or '.join(expected)}. Correct it, or leave the row out."


def _field(place: tuple[int | str, ...]) -> str:
    """A place inside a record, as in 'dialogue_history'[3].content, without pydantic's names of a union's types."""
    names = [one for one in place if isinstance(one, int) or (one.isidentifier() and one != "str")]
    inside = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in names[1:])
    return f"{names[0]!r}{inside}" if names else ""
