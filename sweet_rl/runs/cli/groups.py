"""The flags of a script: its own parameters, and the fields of the dataclasses (groups) that it takes."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import re
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass
from types import UnionType
from typing import Annotated, Any

from sweet_rl.runs.cli.values import coerce
from sweet_rl.runs.errors import UserError

UNRECORDED = "unrecorded"
"""Marks a field that does not influence the result, so that `to_settings` leaves it out:
`concurrency: Annotated[int, UNRECORDED] = 64`."""


class alias:
    """Marks other names of a flag: `tokenizer: Annotated[str | None, alias("agent_model")] = None`."""

    def __init__(self, *names: str) -> None:
        self.names = names


class prefix:
    """Marks the flag names of a group: `Annotated[Critic, prefix("critic_", model_id="critic", seed=None)]`.

    Args:
        text: Text before the name of each field.
        renamed: Flag names of single fields, used as they are; None makes no flag of that field.
    """

    def __init__(self, text: str = "", **renamed: str | None) -> None:
        self.text, self.renamed = text, renamed


@dataclass(frozen=True)
class Flag:
    """One flag of a script.

    Attributes:
        name: Name without the dashes.
        kind: Annotation that its value is checked against.
        default: Default value; MISSING if the flag is required.
        help: Text from the docstring of the group or of `main`.
        aliases: Other names that mean the same.
        parameter: Parameter of `main` that it is, or is a part of.
        group: Dataclass that it is a field of; None for a parameter of its own.
        field: Name of that field.
        heading: Heading of its group in the help.
    """

    name: str
    kind: Any
    default: Any
    help: str
    aliases: tuple[str, ...]
    parameter: str
    group: type[Any] | None = None
    field: str = ""
    heading: str = ""


CONFIG = Flag(
    name="config",
    kind=str | None,
    default=None,
    help="YAML file of settings, or the name of a packaged one; a flag on the command line wins. For example "
    "paper/backend/critic.yaml.",
    aliases=(),
    parameter="config",
)
"""The flag that every script has."""


def flags_of(main: Callable[..., Any]) -> dict[str, Flag]:
    """Return the flags of `main` by name, in order. Raises TypeError if two of them have the same name."""
    flags: dict[str, Flag] = {}
    taken = {CONFIG.name, "help"}
    helps = argument_docs(main.__doc__)
    hints = typing.get_type_hints(main, include_extras=True)
    for name, parameter in inspect.signature(main).parameters.items():
        default = MISSING if parameter.default is parameter.empty else parameter.default
        kind, marks = _split(hints.get(name, str if default in (None, MISSING) else type(default)))
        group = group_of(kind)
        found = (
            [Flag(name, kind, default, helps.get(name, ""), _aliases(marks), name)]
            if group is None
            else _flags_of_group(group, name, default, marks)
        )
        for flag in found:
            for word in (flag.name, *flag.aliases):
                if word in taken:
                    raise TypeError(f"{main.__name__}: two settings are named --{word}.")
                taken.add(word)
            flags[flag.name] = flag
    return flags


def _flags_of_group(group: type[Any], parameter: str, default: Any, marks: tuple[Any, ...]) -> list[Flag]:
    named = next((mark for mark in marks if isinstance(mark, prefix)), prefix())
    hints = typing.get_type_hints(group, include_extras=True)
    helps: dict[str, str] = {}
    for base in reversed(group.__mro__):
        helps |= argument_docs(vars(base).get("__doc__"))
    fields = {field.name: field for field in dataclasses.fields(group) if field.init}
    if unknown := named.renamed.keys() - fields.keys():
        raise TypeError(f"prefix: {group.__name__} has no fields {', '.join(sorted(unknown))}.")
    heading = inspect.cleandoc(group.__doc__ or "").partition("\n")[0].partition(". ")[0].rstrip(".")
    if named.text:
        heading += f" (--{named.text}...)"
    flags = []
    for key, field in fields.items():
        name = named.renamed.get(key, named.text + key)
        if name is None:
            continue
        kind, own_marks = _split(hints[key])
        aliases = tuple(named.text + other for other in _aliases(own_marks))
        value = _default(field, default)
        flags.append(Flag(name, kind, value, helps.get(key, ""), aliases, parameter, group, key, heading))
    return flags


def _default(field: dataclasses.Field, group: Any) -> Any:
    if dataclasses.is_dataclass(group):
        return getattr(group, field.name)
    if field.default_factory is not MISSING:
        return field.default_factory()
    return None if group is None and field.default is MISSING else field.default


def arguments(main: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `main` from the values of its flags: groups are built, other values passed on.

    Raises UserError for missing flags, and those of the groups' `__post_init__` with the flags' own names.
    """
    flags, parameters = flags_of(main), inspect.signature(main).parameters
    built: dict[str, Any] = {}
    groups: dict[str, list[Flag]] = {}
    missing = [name for name, flag in flags.items() if flag.default is MISSING and name not in values]
    for name, flag in flags.items():
        if flag.group is not None:
            groups.setdefault(flag.parameter, []).append(flag)
        elif name in values:
            built[flag.parameter] = values[name]
    for parameter, members in groups.items():
        given = {flag.field: values[flag.name] for flag in members if flag.name in values}
        default, kind = parameters[parameter].default, members[0].group
        if kind is None or (not given and default is not inspect.Parameter.empty):
            continue
        if default is None:
            missing += [flag.name for flag in members if flag.field in _required(kind) and flag.field not in given]
        if not missing:
            built[parameter] = _built(kind, default, given, {flag.field: flag.name for flag in members})
    if missing:
        raise UserError(f"missing: {', '.join('--' + name for name in missing)} (no default). See --help.")
    return built


def _required(kind: type[Any]) -> list[str]:
    """The fields of a dataclass that have no default."""
    return [f.name for f in dataclasses.fields(kind) if f.init and f.default is f.default_factory is MISSING]


def known_names(name: str, known: Collection[str]) -> str:
    """The remedy for an unknown name: the one that is most alike, or all of them."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known) or 'none'}."


def build(kind: type[Any], values: Mapping[str, Any], where: str) -> Any:
    """Return the dataclass `kind` with the fields that `values` gives, checked against their annotations.

    Args:
        kind: Dataclass of settings.
        values: Value by field, as a flag of type dict or a mapping in a config gives them. A field whose annotation is
            a dataclass takes a mapping.
        where: Flag that gave the values, for example "--critic_settings", for messages.

    Raises:
        UserError: A field is unknown, missing or of another type, or the dataclass refuses its values.
    """
    hints = typing.get_type_hints(kind)
    fields = [field.name for field in dataclasses.fields(kind) if field.init]
    given = {}
    for name, value in values.items():
        if name not in fields:
            raise UserError(f"{where}: unknown setting {name!r}. {known_names(str(name), fields)}")
        group, place = group_of(hints[name]), f"{name!r} in {where}"
        if group is not None and isinstance(value, Mapping):
            given[name] = build(group, value, place)
        else:
            given[name] = coerce(value, hints[name], place)
    if missing := [name for name in _required(kind) if name not in given]:
        raise UserError(f"{where}: missing {', '.join(missing)} (no default).")
    try:
        return kind(**given)
    except UserError as error:
        raise type(error)(f"{where}: {error}") from error


def _built(kind: type[Any], default: Any, given: dict[str, Any], names: dict[str, str]) -> Any:
    try:
        return dataclasses.replace(default, **given) if isinstance(default, kind) else kind(**given)
    except UserError as error:
        text = re.sub(r"--(\w+)", lambda match: "--" + names.get(match[1], match[1]), str(error))
        raise type(error)(text) from error


def to_settings(*groups: Any, **named: Any) -> dict[str, Any]:
    """Return the settings that influence a result, for its manifest.

    Args:
        groups: Groups whose fields become keys of the result.
        named: Other settings by name; a group among them becomes an object of its own under that name.

    Returns:
        All values but those of fields marked UNRECORDED.
    """
    settings: dict[str, Any] = {}
    for part in (*map(_fields, groups), {key: _fields(value) for key, value in named.items()}):
        if both := settings.keys() & part.keys():
            raise TypeError(f"two settings are named {', '.join(sorted(both))}.")
        settings |= part
    return settings


def _fields(value: Any) -> Any:
    if not dataclasses.is_dataclass(value):
        return value
    hints = typing.get_type_hints(type(value), include_extras=True)
    names = [field.name for field in dataclasses.fields(value) if UNRECORDED not in _split(hints[field.name])[1]]
    return {name: _fields(getattr(value, name)) for name in names}


def group_of(kind: Any) -> type[Any] | None:
    """The dataclass that `kind` is, or is with `| None`; None for any other annotation."""
    if typing.get_origin(kind) in (typing.Union, UnionType):
        kinds = [one for one in typing.get_args(kind) if one is not type(None)]
        kind = kinds[0] if len(kinds) == 1 else kind
    return kind if isinstance(kind, type) and dataclasses.is_dataclass(kind) else None


def argument_docs(docstring: str | None) -> dict[str, str]:
    """The texts by name under `Args:` and `Attributes:` of a Google-style docstring, each on one line."""
    docs: dict[str, str] = {}
    indent = None  # of the names; None outside of the sections
    name = ""
    for line in inspect.cleandoc(docstring or "").splitlines():
        depth = len(line) - len(line.lstrip())
        if line in ("Args:", "Attributes:"):
            indent = 0
        elif line and depth == 0:
            indent = None
        elif line and indent is not None:
            indent = indent or depth
            if depth == indent:
                name, _, text = line.strip().partition(":")
                name = name.partition(" (")[0]
                docs[name] = text.strip()
            else:
                docs[name] += " " + line.strip()
    return docs


def _split(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """An annotation without its marks, and the marks."""
    return (hint.__origin__, hint.__metadata__) if typing.get_origin(hint) is Annotated else (hint, ())


def _aliases(marks: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(name for mark in marks if isinstance(mark, alias) for name in mark.names)
