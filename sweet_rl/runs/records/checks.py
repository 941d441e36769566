"""Checks a row of JSON against the type hints of a record, with errors that name place, field, finding and remedy."""

from __future__ import annotations

import dataclasses
import json
import sys
import types
import typing
from functools import cache, reduce
from operator import or_
from typing import Any, Literal, NoReturn

from sweet_rl.runs.errors import RecordError

_UNIONS = (types.UnionType, typing.Union)
_WORDS = {  # one of them, several of them
    str: ("text", "texts"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("true/false", "true/false"),
    dict: ("an object", "objects"),
    list: ("a list", "lists"),
    type(None): ("null", "null"),
}


def read_fields(row: Any, where: str, kind: type) -> dict[str, Any]:
    """The checked values of a row by field name. Optional fields that are missing or null are left out.

    Args:
        row: one JSON value; anything but an object is refused.
        where: its place, for the error.
        kind: a dataclass or TypedDict. Fields of another dataclass are converted by its `from_dict`.

    Raises:
        RecordError: a missing field, or one of the wrong type.
    """
    if not isinstance(row, dict):
        raise RecordError(f"{where}: found {shown(row)}, expected an object with named fields.")
    values = {}
    for name, (hint, required) in _fields(kind).items():
        value = row.get(name)
        if value is None and not required:
            continue
        if name not in row:
            have = ", ".join(map(repr, row)) or "none"
            raise RecordError(
                f"{where}: the field {name!r} is missing (fields found: {have}). It must be {_words(hint)}. "
                "Is this the right file for this step?"
            )
        items = typing.get_args(hint)
        if typing.get_origin(hint) is list and typing.is_typeddict(items[0]) and isinstance(value, list):
            value = [read_fields(item, f"{where}, {name}[{i}]", items[0]) and item for i, item in enumerate(value)]
        elif not accepts(value, hint):
            refuse(where, name, value, _words(hint))
        record: Any = hint if dataclasses.is_dataclass(hint) else None
        values[name] = value if record is None else record.from_dict(value, f"{where}, in {name!r}")
    return values


def refuse(where: str, name: str, value: Any, expected: str) -> NoReturn:
    """Raises RecordError for the value of one field."""
    raise RecordError(f"{where}: the field {name!r} is {shown(value)}; it must be {expected}.")


def check_lengths(logprobs: Any, token_ids: Any, where: str) -> None:
    """Raises RecordError unless there is one log-prob for each token id. A mean, and what is not known, passes."""
    if isinstance(logprobs, list) and isinstance(token_ids, list) and len(logprobs) != len(token_ids):
        raise RecordError(
            f"{where}: {len(logprobs)} log-probs for {len(token_ids)} token ids; there must be one for each. Was the "
            "file edited, or cut?"
        )


def shown(value: Any) -> str:
    """A JSON value for an error: its kind and its first 80 characters."""
    if value is None:
        return "null"
    text = json.dumps(value, ensure_ascii=False, default=repr)
    kind = "a number" if type(value) is int else _WORDS.get(type(value), (type(value).__name__,))[0]
    return f"{kind} {text if len(text) <= 80 else text[:77] + '...'}"


def accepts(value: Any, hint: Any) -> bool:
    """Whether a JSON value has a type. NaN and infinity are no numbers, true and false neither."""
    origin, items = typing.get_origin(hint), typing.get_args(hint)
    if origin in _UNIONS:
        return any(accepts(value, one) for one in items)
    if origin is Literal:
        return value in items
    if origin is list:
        return isinstance(value, list) and all(accepts(item, items[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(accepts(item, items[1]) for item in value.values())
    if typing.is_typeddict(hint):
        return isinstance(value, dict) and all(
            accepts(value.get(name), one) if required or value.get(name) is not None else True
            for name, (one, required) in _fields(hint).items()
        )
    if hint in (int, float):
        numbers = int if hint is int else int | float
        return isinstance(value, numbers) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return isinstance(value, dict if dataclasses.is_dataclass(hint) else hint)


@cache
def _fields(kind: Any) -> dict[str, tuple[Any, bool]]:
    """(type without None, whether the row must have it) by field name, without `extra`."""
    if dataclasses.is_dataclass(kind):
        required = {f.name for f in dataclasses.fields(kind) if f.default is f.default_factory is dataclasses.MISSING}
        names = [field.name for field in dataclasses.fields(kind) if field.name != "extra"]
    else:
        required, names = kind.__required_keys__, list(kind.__annotations__)
    hints = typing.get_type_hints(kind)
    for name, hint in hints.items():
        if typing.get_origin(hint) in _UNIONS:
            hints[name] = reduce(or_, [one for one in typing.get_args(hint) if one is not type(None)])
    return {name: (hints[name], name in required) for name in names}


def _words(hint: Any, several: bool = False) -> str:
    """A type in words."""
    origin, items = typing.get_origin(hint), typing.get_args(hint)
    if origin in _UNIONS:
        return " or ".join(_words(one, several) for one in items)
    if origin is Literal:
        return f"one of {', '.join(items)}"
    if origin is list:
        return f"{_WORDS[list][several]} of {_words(items[0], True)}"
    if origin is dict:
        return f"{_WORDS[dict][several]} of {_words(items[1], True)}"
    if typing.is_typeddict(hint):
        keys = ", ".join(name if required else f"{name}?" for name, (_, required) in _fields(hint).items())
        return f"{_WORDS[dict][several]} {{{keys}}}"
    return _WORDS.get(hint, _WORDS[dict])[several]
