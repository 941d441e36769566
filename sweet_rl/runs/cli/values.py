"""Values of flags: text from the command line, or YAML, as the type that an annotation asks for."""

from __future__ import annotations

import ast
import dataclasses
import math
import re
import sys
import types
import typing
from typing import Any

import yaml

from sweet_rl.runs.errors import UserError

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_NULL = ("none", "null")
_NAMES = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    type(None): "nothing",
    dict: "a mapping",
}


class _OneKeyEach(yaml.SafeLoader):
    """Reads YAML whose mappings have each key once; of two equal keys YAML itself would take the last."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict:
        found: list[Any] = []
        for key_node, _ in getattr(node, "value", ()):
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            if (key := self.construct_object(key_node, deep=True)) in found:
                problem = f"the key {key!r} is there twice: leave one of them"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            found.append(key)
        return super().construct_mapping(node, deep)


def _without_numbers(loader: Any) -> dict[str, list]:
    """The resolvers of plain words but those of YAML 1.1's numbers, by which 0256 is 174 and 1:30 is 90."""
    numbers = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
    kinds = loader.yaml_implicit_resolvers.items()
    return {first: [one for one in known if one[0] not in numbers] for first, known in kinds}


_OneKeyEach.yaml_implicit_resolvers = _without_numbers(_OneKeyEach)
_OneKeyEach.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile("[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$"), [*"-+0123456789"]
)
_OneKeyEach.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?$"
        r"|[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$"
    ),
    [*"-+0123456789."],
)


def read_yaml(text: str) -> Any:
    """Return the value of a YAML text. Raises yaml.YAMLError, also for a key that is there twice."""
    try:
        return yaml.load(text, Loader=_OneKeyEach)  # noqa: S506
    except RecursionError as error:
        raise yaml.YAMLError("it is nested too deeply") from error
    except ValueError as error:  # of a number or a date
        raise yaml.YAMLError(str(error)) from error


def coerce(value: Any, kind: Any, where: str) -> Any:
    """Return `value` as `kind`.

    Args:
        value: Text of the command line, or a value of YAML.
        kind: Annotation of the flag.
        where: Flag or config key, for the message.

    Raises:
        UserError: The value is of another type; the message names what was found and what was expected.
    """
    try:
        return _as(value, kind)
    except (ValueError, TypeError, SyntaxError, OverflowError, yaml.YAMLError) as error:
        raise UserError(f"{where} is {_shown(value)}; expected {name_of(kind)}.") from error


def name_of(kind: Any) -> str:
    """An annotation in words, for messages."""
    if typing.get_origin(kind) is typing.Literal:
        return " or ".join(repr(choice) for choice in typing.get_args(kind))
    if _is_union(kind):
        return " or ".join(name_of(one) for one in typing.get_args(kind))
    if typing.get_origin(kind) in (list, tuple):
        return f"{name_of(typing.get_args(kind)[0])}, several separated by commas"
    if dataclasses.is_dataclass(kind):
        return f"a mapping of {', '.join(field.name for field in dataclasses.fields(kind))}"
    return _NAMES.get(kind, str(kind).replace("typing.", ""))


def takes_bool(kind: Any) -> bool:
    """Whether the flag may stand without a value."""
    return bool in (kind, *typing.get_args(kind))


def is_bool_word(word: str) -> bool:
    """Whether a word of the command line means true or false."""
    return word.lower() in (*_TRUE, *_FALSE)


def _as(value: Any, kind: Any) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if _is_union(kind):
        return _as_union(value, arguments)
    if origin is typing.Literal:
        for choice in arguments:
            if str(value) == str(choice):
                return choice
        raise ValueError(value)
    if (origin or kind) in (list, tuple):
        return _as_list(value, origin or kind, arguments)
    if kind is bool:
        return _as_bool(value)
    if kind in (int, float):
        return _as_number(value, kind)
    if kind is str:
        if isinstance(value, bool) or not isinstance(value, int | float | str) or "\0" in str(value):
            raise ValueError(value)
        return str(value)
    if (origin or kind) is dict:
        value = read_yaml(value) if isinstance(value, str) else value
        if not isinstance(value, dict):
            raise ValueError(value)
        return value
    if isinstance(kind, type) and not isinstance(value, kind):
        if dataclasses.is_dataclass(kind):
            raise ValueError(value)
        return kind(value)
    return value


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:  # Python does not write out such a number
        return f"a value with a number of more than {sys.get_int_max_str_digits():,} digits"


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (typing.Union, types.UnionType)


def _as_union(value: Any, kinds: tuple[Any, ...]) -> Any:
    if isinstance(value, str) and any(value in typing.get_args(kind) for kind in kinds):
        return value  # a choice with the name of nothing, for example `none` of --normalize
    if type(None) in kinds and (value is None or isinstance(value, str) and value.lower() in _NULL):
        return None
    for kind in sorted((kind for kind in kinds if kind is not type(None)), key=lambda kind: kind is str):
        try:
            return _as(value, kind)
        except (ValueError, TypeError, SyntaxError, yaml.YAMLError):
            continue
    raise ValueError(value)


def _as_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and is_bool_word(value):
        return value.lower() in _TRUE
    raise ValueError(value)


def _as_number(value: Any, kind: type) -> Any:
    whole_only = kind is int and isinstance(value, float)
    if isinstance(value, bool) or whole_only or not isinstance(value, int | float | str):
        raise ValueError(value)
    number = kind(value)
    if not math.isfinite(number):
        raise ValueError(value)
    return number


def _as_list(value: Any, kind: type, arguments: tuple[Any, ...]) -> Any:
    if isinstance(value, str) and value[:1] + value[-1:] in ("[]", "()"):
        value = ast.literal_eval(value)
    elif isinstance(value, str):
        value = [item.strip() for item in value.split(",") if item.strip()]
    elif not isinstance(value, list | tuple):
        value = [value]
    item = arguments[0] if arguments else Any
    return kind(_as(one, item) for one in value)
