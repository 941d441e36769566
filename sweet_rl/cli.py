"""Turns a script's `main(...)` into a command: its parameters are the flags, and the keys of `--config`."""

import ast
import atexit
import difflib
import inspect
import json
import math
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import fire
import yaml
from fire.decorators import SetParseFn

from sweet_rl.errors import UserError

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_NULL = ("none", "null")
_FLAG = re.compile(r"--|-[a-zA-Z]")  # what Fire takes for a flag: not a negative number


def run(main: Callable[..., Any], command: Sequence[str] | None = None) -> None:
    """Runs `main` with the flags of the command line (or `command`), and exits the process if that does not
    work.

    `--flag value`, `--flag=value`, `--flag` and `--noflag` for booleans, `--config FILE.yaml` for any of them
    (a flag given by hand wins), `--help`. Values are checked against the annotations of `main`.
    Exit codes: 0 done, 2 UserError (its message alone on stderr), 130 interrupted.
    """
    try:
        main(**parse(main, sys.argv[1:] if command is None else command))
        _leave_process_group()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("\ninterrupted: run the same command again to continue", file=sys.stderr)
        sys.exit(130)


def _leave_process_group() -> None:
    """Ends a command that ran in several processes, which worked: leaves their group, runs what is registered for the
    exit, and exits without tearing the interpreter down.

    A thread of gloo may still be about to drop a tensor, for which it needs the interpreter; while that is torn down,
    the thread aborts the process (pytorch/pytorch#179291). Not after an error: the other processes may be within a
    collective, and ending the group would wait for them.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return
    distributed.destroy_process_group()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def parse(main: Callable[..., Any], command: Sequence[str]) -> dict[str, Any]:
    """The arguments that `main` is called with. Raises UserError for unknown, missing and ill-typed ones."""
    parameters = inspect.signature(main).parameters
    hints = typing.get_type_hints(main)
    flags = _flags(main, command)
    config = flags.pop("config", None)
    given: dict[str, tuple[str, Any]] = {}
    if config is not None:
        for key, value in _read_config(config).items():
            given[key] = (f"'{key}' in {config}", value)
    for key, value in flags.items():
        given[key] = (f"--{key}", value)

    for key, (where, _) in given.items():
        if key not in parameters:
            raise _unknown(where, key, parameters)
    values = {k: _coerce(v, _annotation(parameters[k], hints), where) for k, (where, v) in given.items()}
    missing = [f"--{k}" for k, p in parameters.items() if p.default is p.empty and k not in given]
    if missing:
        raise UserError(f"missing: {', '.join(missing)} (no default). See --help.")
    return values


def _flags(main: Callable[..., Any], command: Sequence[str]) -> dict[str, str]:
    """The flags as given, as text. Fire splits them and writes the help; it calls only `collect`, which
    stores.

    Names are checked before, because Fire calls first and finds what is left over afterwards.
    """
    command = list(command)
    parameters = inspect.signature(main).parameters
    for_help = "--help" in command or "-h" in command
    if not for_help:
        command = [_checked(word, command[i + 1 : i + 2], main) for i, word in enumerate(command)]
    found: dict[str, str] = {}

    def collect(*values: str, **flags: str) -> None:
        if values:
            raise UserError(f"{values[0]!r} has no flag before it. Every value needs one: --name value.")
        found.update({name: value for name, value in flags.items() if value is not None})

    shown = [p.replace(kind=p.KEYWORD_ONLY) for p in parameters.values()]
    shown.append(
        inspect.Parameter("config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=str | None)
    )
    if (
        not for_help
    ):  # no default of its own, none asked for: `parse` says what is missing, in the config file too
        values = inspect.Parameter("values", inspect.Parameter.VAR_POSITIONAL)
        shown = [values, *(p.replace(default=None) for p in shown)]
        SetParseFn(str)(collect)
    module = inspect.getmodule(main)
    collect.__signature__ = inspect.Signature(shown)
    collect.__doc__ = main.__doc__ or (module.__doc__ if module else None)
    fire.Fire(collect, command=command, name=Path(sys.argv[0]).name)
    return found


def _checked(word: str, following: list[str], main: Callable[..., Any]) -> str:
    """A word of the command as Fire takes it; raises UserError for an unknown flag, one without its value."""
    if not word.startswith("--"):
        if word == "-" or _FLAG.match(word):  # Fire would stop there, or look for a flag that begins so
            raise UserError(
                f"unknown setting {word}. Flags have two dashes: --name value; a value that begins with a dash is "
                f"given as --name={word}."
            )
        return word
    name, equals, _ = word[2:].replace("-", "_").partition("=")
    parameters = inspect.signature(main).parameters
    bare = not equals and (not following or _FLAG.match(following[0]))
    negated = name.removeprefix("no").lstrip("_")
    if name not in parameters and bare and name.startswith("no") and negated in parameters:
        return f"--{negated}=False"
    if name not in parameters and name != "config":
        raise _unknown(f"--{name}", name, parameters)
    kind = str if name == "config" else _annotation(parameters[name], typing.get_type_hints(main))
    if bare and bool not in (kind, *typing.get_args(kind)):
        raise UserError(f"--{name} has no value; expected {_name(kind)} after it.")
    return word


def _unknown(where: str, name: str, parameters: Mapping[str, Any]) -> UserError:
    known = [*parameters, "config"]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return UserError(
        f"unknown setting {where}. "
        + (f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known)}.")
    )


def _read_config(path: str) -> dict[str, Any]:
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"--config {path}: {error.strerror}. Give the path of a YAML file.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"--config {path}: not a YAML file. {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise UserError(f"--config {path}: expected lines 'name: value', found {type(content).__name__}.")
    return content


def _annotation(parameter: inspect.Parameter, hints: dict[str, Any]) -> Any:
    if parameter.name in hints:
        return hints[parameter.name]
    return str if parameter.default in (None, parameter.empty) else type(parameter.default)


def _coerce(value: Any, kind: Any, where: str) -> Any:
    """`value` (text from the command line, or YAML) as `kind`; raises UserError naming what was expected."""
    try:
        return _as(value, kind)
    except (ValueError, TypeError, SyntaxError, OverflowError) as error:
        raise UserError(f"{where} is {value!r}; expected {_name(kind)}.") from error


def _as(value: Any, kind: Any) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        return _as_union(value, arguments)
    if origin is typing.Literal:
        for choice in arguments:
            if value == choice or str(value) == str(choice):
                return choice
        raise ValueError(value)
    if kind in (list, tuple) or origin in (list, tuple):
        return _as_list(value, origin or kind, arguments)
    if kind is bool:
        return _as_bool(value)
    if kind in (int, float):
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float | str)
            or isinstance(value, float)
            and kind is int
        ):
            raise ValueError(value)
        number = kind(value)
        if kind is float and not math.isfinite(number):
            raise ValueError(value)
        return number
    if kind is str:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError(value)
        return str(value)
    if kind is dict or origin is dict:
        if isinstance(value, str):
            value = yaml.safe_load(value)
        if not isinstance(value, dict):
            raise ValueError(value)
        return value
    return value if not isinstance(kind, type) or isinstance(value, kind) else kind(value)


def _as_union(value: Any, kinds: tuple[Any, ...]) -> Any:
    if type(None) in kinds and (value is None or isinstance(value, str) and value.lower() in _NULL):
        return None
    for kind in sorted((k for k in kinds if k is not type(None)), key=lambda k: k is str):
        try:
            return _as(value, kind)
        except (ValueError, TypeError, SyntaxError):
            continue
    raise ValueError(value)


def _as_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in (*_TRUE, *_FALSE):
        return value.lower() in _TRUE
    raise ValueError(value)


def _as_list(value: Any, kind: type, arguments: tuple[Any, ...]) -> Any:
    if isinstance(value, str):
        bracketed = value[:1] + value[-1:] in ("[]", "()")
        value = (
            ast.literal_eval(value)
            if bracketed
            else [item.strip() for item in value.split(",") if item.strip()]
        )
    elif not isinstance(value, list | tuple):
        value = [value]
    item = arguments[0] if arguments else Any
    return kind(_as(v, item) for v in value)


def _name(kind: Any) -> str:
    if typing.get_origin(kind) is typing.Literal:
        return " or ".join(repr(choice) for choice in typing.get_args(kind))
    words = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "text",
        type(None): "nothing",
    }
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return " or ".join(_name(k) for k in typing.get_args(kind))
    return words.get(kind, str(kind).replace("typing.", ""))


def one_of(**names: Any) -> Any:
    """The value given under one of several names that mean the same; None if there is none. Raises UserError."""
    given = {name: value for name, value in names.items() if value is not None}
    if len(set(given.values())) > 1:
        raise UserError(f"{' and '.join('--' + name for name in given)} mean the same: give one of them.")
    return next(iter(given.values()), None)


def print_summary(summary: Mapping[str, Any]) -> None:
    """Print a run's summary, one line a figure; groups of figures as JSON."""
    for name, value in summary.items():
        print(f"{name}: {json.dumps(value) if isinstance(value, dict) else value}")
