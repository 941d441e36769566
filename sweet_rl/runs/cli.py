'''Command lines: the parameters of a script's `main` are its flags and the keys of `--config FILE.yaml`.

A parameter annotated with a dataclass is a group of settings, shared by scripts: each field becomes a flag, with the
field's type, default and help text (its line under `Attributes:` in the dataclass docstring). For example:

    @dataclass(frozen=True)
    class Sampling:
        """How replies are sampled.

        Attributes:
            temperature: Sampling temperature; 0 is greedy.
            concurrency: Largest number of calls in progress.
        """
        temperature: float = 1.0
        concurrency: Annotated[int, UNRECORDED] = 64

    def main(
        input_path: str,
        agent: Annotated[Sampling, prefix("agent_")] = Sampling(temperature=0.7),
        seed: int = 0,
    ) -> None:
        settings = to_settings(agent=agent, seed=seed)  # {"agent": {"temperature": 0.7}, "seed": 0}

    run(main)  # --input_path, --agent_temperature, --agent_concurrency, --seed, --config

Fire reads the command line, pydantic makes each value of the annotated type. A group annotated `Group | None = None` is
None unless one of its flags is given. Ranges are pydantic's: `PositiveInt`, `Annotated[float, Field(ge=0, lt=1)]`. What
no type says, a group checks in `__post_init__`, and raises UserError naming the flag as `--field`. The command lines of
the authors' release are in released.py.
'''

from __future__ import annotations

import atexit
import dataclasses
import gc
import inspect
import json
import os
import re
import shutil
import sys
import textwrap
import traceback
import types
import typing
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import fire
import yaml
from fire.decorators import SetParseFn
from pydantic import ConfigDict, TypeAdapter, ValidationError

import sweet_rl
from sweet_rl.runs.errors import UserError, masked, printable
from sweet_rl.runs.released import OURS, Released

UNRECORDED = "unrecorded"
"""Marks a field that does not influence the result, so that `to_settings` leaves it out:
`concurrency: Annotated[int, UNRECORDED] = 64`."""


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
    """One flag of a script: a parameter of `main`, or the `field` of the `group` that is that parameter.

    A required flag has the default MISSING.
    """

    name: str
    kind: Any
    default: Any
    help: str
    parameter: str = ""
    group: type[Any] | None = None
    field: str = ""


CONFIG = Flag(
    "config",
    str | None,
    None,
    "YAML file of settings, or the name of a packaged one; a flag on the command line wins. For example "
    "paper/backend/critic.yaml.",
)
"""The flag that every script has."""


def run(main: Callable[..., Any], words: Sequence[str] | None = None, released: Released = OURS) -> None:
    """Run `main` with the flags of the command line and exit the process if that fails.

    `--flag value`, `--flag=value`, `--flag` and `--noflag` for booleans, `--config FILE.yaml` for any of them (a flag
    on the command line wins), `--help`. Exit codes: 0 done, 1 nothing came out, 2 UserError or an error of the
    operating system (only the message, on stderr), 130 interrupted.

    Args:
        main: Function whose parameters are the settings; see the docstring of this module.
        words: Words of the command line. Default: those of this process.
        released: The release's script whose command lines are taken too.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # without it two trainings side by side take many times as long
    if not sys.stderr.isatty():  # these bars write a line for every update
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch|transformers")  # not for users of a step
    atexit.register(gc.freeze)  # otherwise the exit takes over a second: a search for cycles among torch's objects
    words = sys.argv[1:] if words is None else list(words)
    try:
        if "--help" in words or "-h" in words:
            print(help_text(main), flush=True)
            return
        main(**parse(main, words, released))
        leave_process_group()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
    except ModuleNotFoundError as error:
        files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
        importing = [file for file in files if not file.startswith("<")][-1]  # without Python's own import machinery
        if not Path(importing).is_relative_to(Path(__file__).parents[1]):
            raise  # an import of a user's file, or of another package
        print(
            f"error: {error}. Install it, or the extra of sweet_rl that brings it: pip install 'sweet_rl[train]' for "
            "torch and transformers; docs/index.md lists the others.",
            file=sys.stderr,
        )
        sys.exit(2)
    except BrokenPipeError:  # `head` has closed the pipe, and Python would complain again when it exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.errno is None:  # raised by a library, not by the system
            raise
        print(printable(masked(f"error: {error}")), file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("\ninterrupted: run the same command again to continue", file=sys.stderr)
        sys.exit(130)


def leave_process_group() -> None:
    """End a command that ran in several processes and succeeded, without tearing the interpreter down.

    A thread of gloo may still need the interpreter to drop a tensor; during its teardown the thread aborts the
    process (pytorch/pytorch#179291). Not called after an error: leaving the group would wait for the others.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return
    distributed.destroy_process_group()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


# Flags of a function ------------------------------------------------------------------------------------------------


def flags_of(main: Callable[..., Any]) -> dict[str, Flag]:
    """The flags of `main` by name, in order. Raises TypeError if two of them have the same name."""
    flags: list[Flag] = []
    helps, hints = argument_docs(main.__doc__), typing.get_type_hints(main, include_extras=True)
    for name, parameter in inspect.signature(main).parameters.items():
        default = MISSING if parameter.default is parameter.empty else parameter.default
        kind, marks = hints[name], _marks(hints[name])
        group = group_of(kind)
        if group is None:
            flags.append(Flag(name, kind, default, helps.get(name, ""), name))
        else:
            flags += _flags_of_group(group, name, default, marks)
    names = ["help", CONFIG.name, *(flag.name for flag in flags)]
    if twice := {name for name in names if names.count(name) > 1}:
        raise TypeError(f"{main.__name__}: two settings are named --{', --'.join(sorted(twice))}.")
    return {flag.name: flag for flag in flags}


def _flags_of_group(group: type[Any], parameter: str, default: Any, marks: tuple[Any, ...]) -> list[Flag]:
    names = next((mark for mark in marks if isinstance(mark, prefix)), prefix())
    hints = typing.get_type_hints(group, include_extras=True)
    helps: dict[str, str] = {}
    for base in reversed(group.__mro__):
        helps |= argument_docs(base.__dict__.get("__doc__"))
    flags = []
    for field in dataclasses.fields(group):
        name = names.renamed.get(field.name, names.text + field.name)
        if name is None or not field.init:
            continue
        kind = hints[field.name]
        value = field.default if field.default_factory is MISSING else field.default_factory()
        if isinstance(default, group):
            value = getattr(default, field.name)
        elif default is None and value is MISSING:
            value = None
        flags.append(Flag(name, kind, value, helps.get(field.name, ""), parameter, group, field.name))
    return flags


def group_of(kind: Any) -> type[Any] | None:
    """The dataclass that `kind` is, or is with `| None`; None for any other annotation."""
    kinds = [one for one in kinds_of(kind) if one is not type(None)]
    is_group = len(kinds) == 1 and isinstance(kinds[0], type) and dataclasses.is_dataclass(kinds[0])
    return kinds[0] if is_group else None


def kinds_of(kind: Any) -> tuple[Any, ...]:
    """The types of a union; of any other annotation itself. They are without marks and ranges."""
    if typing.get_origin(kind) is Annotated:
        return kinds_of(kind.__origin__)
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return tuple(one for member in typing.get_args(kind) for one in kinds_of(member))
    return (kind,)


def argument_docs(docstring: str | None) -> dict[str, str]:
    """The texts by name under `Args:` or `Attributes:` of a Google-style docstring, each on one line."""
    section = re.search(r"^(?:Args|Attributes):\n((?:[ ]+.*\n?|\n)*)", inspect.cleandoc(docstring or ""), re.M)
    entries = re.findall(r"^    (\w+)[^:\n]*: ?(.*(?:\n {5,}.*|\n(?= *\n))*)", section[1] if section else "", re.M)
    return {name: " ".join(text.split()) for name, text in entries}


def _marks(hint: Any) -> tuple[Any, ...]:
    return getattr(hint, "__metadata__", ())


# Values of flags ----------------------------------------------------------------------------------------------------


def parse(main: Callable[..., Any], words: Sequence[str], released: Released = OURS) -> dict[str, Any]:
    """The arguments for `main`: its own parameters that were given, and its groups.

    Raises:
        UserError: Unknown, missing, contradicting or ill-typed settings, or a group refuses its values.
        TypeError: `main` has two settings of the same name.
    """
    return arguments(main, parse_flags(main, words, released))


def arguments(main: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments for `main` of the values of its flags. Raises as `parse` does."""
    flags = flags_of(main)
    missing = [name for name, flag in flags.items() if flag.default is MISSING and name not in values]
    if missing:
        raise UserError(f"missing: {', '.join('--' + name for name in missing)} (no default). See --help.")
    built: dict[str, Any] = {}
    for name, parameter in inspect.signature(main).parameters.items():
        members = [flag for flag in flags.values() if flag.parameter == name]
        given = {flag.field: values[flag.name] for flag in members if flag.name in values}
        group = members[0].group
        if group is None:
            built |= {name: given[""]} if given else {}
        elif given or parameter.default is parameter.empty:
            built[name] = _built(group, parameter.default, given, {flag.field: flag.name for flag in members})
    return built


def _built(group: type[Any], default: Any, given: dict[str, Any], names: dict[str, str]) -> Any:
    """A group of settings; the error of its `__post_init__` names the flags as this script does."""
    if missing := [names[field] for field in _required(group) if default is None and field not in given]:
        raise UserError(f"missing: {', '.join('--' + name for name in missing)}. See --help.")
    try:
        return dataclasses.replace(default, **given) if isinstance(default, group) else group(**given)
    except UserError as error:
        text = re.sub(r"--(\w+)", lambda match: "--" + names.get(match[1], match[1]), str(error))
        raise type(error)(text) from error


def _required(group: type[Any]) -> list[str]:
    """The fields of a dataclass that have no default."""
    return [f.name for f in dataclasses.fields(group) if f.init and f.default is f.default_factory is MISSING]


def parse_flags(main: Callable[..., Any], words: Sequence[str], released: Released = OURS) -> dict[str, Any]:
    """The checked values by flag name that a command line and its `--config` give. Raises as `parse` does."""
    flags = flags_of(main)
    names = flags | {there: flags[here] for there, here in released.names.items()}
    given = released.translate(_read_words(words, names, released))
    config = given.pop("config", None)
    values = _checked({f"--{name}": (name, value) for name, value in given.items()}, names)
    if config is None:
        return values
    settings = read_config(config)
    return _checked({f"'{name}' in {config}": (name, value) for name, value in settings.items()}, names) | values


def _read_words(words: Sequence[str], names: Mapping[str, Flag], released: Released) -> dict[str, str]:
    """The text by flag of a command line, as Fire reads it; "True" or "False" for a flag that stands alone."""
    given: dict[str, str] = {}
    stray: list[str] = []

    @SetParseFn(str)  # values stay text: the annotation of the flag decides about the type
    def collect(*values: str | None, **flags: str) -> None:
        placed = {name: value for name, value in zip(released.order, values, strict=False) if value is not None}
        given.update(placed | {name.lstrip("_"): value for name, value in flags.items()})  # --no_flag leaves _flag
        stray.extend(value for value in values[len(released.order) :] if value is not None)

    Parameter = inspect.Parameter
    known = [name for name in (*names, *released.ignored, *released.refused, CONFIG.name) if name not in released.order]
    collect.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            *(Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=None) for name in released.order),
            Parameter("_stray", Parameter.VAR_POSITIONAL),
            *(Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in dict.fromkeys(known)),
            Parameter("_unknown", Parameter.VAR_KEYWORD),
        ]
    )
    fire.Fire(collect, command=_joined(words, released.several))
    if stray:
        order = f" By position it takes {', '.join(released.order)}." if released.order else ""
        raise UserError(
            f"{stray[0]!r} has no flag before it.{order} Every value needs one: --name value. Several values are "
            "separated by commas."
        )
    return given


def _joined(words: Sequence[str], several: Sequence[str]) -> list[str]:
    """The command with the words after a flag of `several` joined by commas: --adam_betas 0.9 0.95."""
    joined: list[str] = []
    name = ""
    for word in words:
        if re.fullmatch(r"--local[_-]rank=\d+", word):  # DeepSpeed's launcher adds it and sets LOCAL_RANK
            continue
        if word.startswith("-") and not re.match(r"-\.?\d", word):
            name = word.lstrip("-").partition("=")[0].replace("-", "_")
        elif name in several:
            word = f"{joined[-1]}{',' if '=' in joined[-1] else '='}{word}"
            joined.pop()
        joined.append(word)
    return joined


def _checked(given: Mapping[str, tuple[str, Any]], names: Mapping[str, Flag]) -> dict[str, Any]:
    """Values of the right type by flag name, from {where it was given: (flag or released name, value)}."""
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    for where, (name, text) in given.items():
        if name not in names:
            raise UserError(f"unknown setting {where}. --help lists the flags.")
        flag = names[name]
        value = as_kind(text, flag.kind, where)
        if value in ("True", "False"):
            raise UserError(f"{where} has no value: give --{name} VALUE.")
        if flag.name.endswith("seed") and isinstance(value, int) and not 0 <= value < 2**32:
            raise UserError(f"{where} is {value}; a seed must be at least 0 and below 2**32.")
        if flag.name in values and values[flag.name] != value:
            raise UserError(f"{places[flag.name]} and {where} mean the same: give one of them.")
        values[flag.name], places[flag.name] = value, where
    return values


_adapter = cache(lambda kind: TypeAdapter(kind, config=ConfigDict(coerce_numbers_to_str=True, allow_inf_nan=False)))


def as_kind(value: Any, kind: Any, where: str) -> Any:
    """A value of the command line or of YAML as the annotated type. Lists are text with commas, mappings are YAML.

    Raises:
        UserError: The value is not of the type; `where` names its flag, or its key in a config.
    """
    kinds = kinds_of(kind)
    origins = {typing.get_origin(one) or one for one in kinds}
    choices = [choice for one in kinds if typing.get_origin(one) is Literal for choice in typing.get_args(one)]
    if str(value) in map(str, choices):
        return next(choice for choice in choices if str(choice) == str(value))
    if isinstance(value, str) and type(None) in kinds and value.lower() in ("none", "null"):
        return None
    read = value
    try:
        if isinstance(value, str) and dict in origins:
            read = yaml.safe_load(value)
        elif isinstance(value, str) and origins & {list, tuple}:
            read = [item.strip() for item in value.strip("[]()").split(",") if item.strip()]
        return _adapter(kind).validate_python(read)
    except ValidationError as error:
        expected = [one["msg"].removeprefix("Input ") for one in error.errors(include_url=False)]
        raise UserError(f"{where} is {value!r}; it {' or '.join(dict.fromkeys(expected))}.") from error
    except yaml.YAMLError as error:
        raise UserError(f"{where} is {value!r}, which is no YAML: {error}") from error


def read_config(path: str) -> dict[str, Any]:
    """The settings of a `--config` file. Raises UserError if it is none that can be read."""
    try:
        content = yaml.safe_load(find_config(path).read_text(encoding="utf-8")) or {}
    except FileNotFoundError as error:
        raise UserError(f"--config {path}: there is no such file, here or in the package's configs.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"--config {path}: not a YAML file that can be read. {error}") from error
    if not isinstance(content, dict):
        raise UserError(f"--config {path}: expected lines 'name: value', found a {type(content).__name__}.")
    return content


def packaged_config(name: str) -> Path:
    """The path of a packaged file or folder, which need not exist: `packaged_config("paper/results.yaml")`."""
    package = Path(sweet_rl.__file__).parent
    folders = (package / "configs", package.parent / "configs")  # of an install, of a checkout
    return next((folder / name for folder in folders if (folder / name).exists()), folders[-1] / name)


def find_config(path: str) -> Path:
    """The file at `path`; if there is none, the packaged one of this name, with or without `configs/` before it."""
    packaged = packaged_config(path.removeprefix("configs/"))
    return packaged if not Path(path).exists() and packaged.is_file() else Path(path)


# Groups of settings -------------------------------------------------------------------------------------------------


def build(group: type[Any], values: Mapping[str, Any], where: str) -> Any:
    """The dataclass `group` with the fields that a mapping gives, checked against their annotations.

    Args:
        group: Dataclass of settings.
        values: Value by field, as a flag of type dict or a mapping in a config gives them.
        where: Flag that gave the values, for example "--critic_settings", for messages.

    Raises:
        UserError: A field is unknown, missing or of another type, or the dataclass refuses its values.
    """
    hints = typing.get_type_hints(group, include_extras=True)
    if unknown := sorted(values.keys() - {field.name for field in dataclasses.fields(group)}):
        raise UserError(f"{where}: unknown setting {unknown[0]!r}. Known: {', '.join(hints)}.")
    if missing := [name for name in _required(group) if name not in values]:
        raise UserError(f"{where}: missing {', '.join(missing)} (no default).")
    return group(**{name: as_kind(value, hints[name], f"{name!r} in {where}") for name, value in values.items()})


def to_settings(*groups: Any, **named: Any) -> dict[str, Any]:
    """The settings that influence a result, for its manifest: all values but those of fields marked UNRECORDED.

    Args:
        groups: Groups whose fields become keys of the result.
        named: Other settings by name; a group among them becomes an object of its own under that name.
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
    names = [field.name for field in dataclasses.fields(value) if UNRECORDED not in _marks(hints[field.name])]
    return {name: _fields(getattr(value, name)) for name in names}


# What is printed ----------------------------------------------------------------------------------------------------


def help_text(main: Callable[..., Any]) -> str:
    """The purpose of a script and its flags, those of each group under the first sentence of its docstring."""
    sections: dict[str, list[Flag]] = {"Required": [], "Settings": []}
    for flag in (*flags_of(main).values(), CONFIG):
        group = "" if flag.group is None else inspect.cleandoc(flag.group.__doc__ or "").partition("\n")[0].rstrip(".")
        sections.setdefault("Required" if flag.default is MISSING else group or "Settings", []).append(flag)
    width = max(80, shutil.get_terminal_size((120, 24)).columns)
    lines = [inspect.cleandoc(main.__doc__ or "").partition("\nArgs:")[0].strip()]
    for heading, flags in sections.items():
        lines += [f"\n{heading}:"] if flags else []
        for flag in flags:
            hidden = flag.default in (MISSING, None, "", ()) or flag.default is False
            shown = "" if hidden else f" [{flag.default}]"
            lines.append(f"  --{flag.name} {_placeholder(flag.kind)}".rstrip() + shown)
            lines += textwrap.wrap(flag.help, width, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return "\n".join(lines)


def _placeholder(kind: Any) -> str:
    """What may stand after a flag: a placeholder, or the choices; nothing for a switch."""
    kind = next(one for one in kinds_of(kind) if one is not type(None))
    if typing.get_origin(kind) is Literal:
        return "|".join(map(str, typing.get_args(kind)))
    if typing.get_origin(kind) in (list, tuple):
        return "A,B,..."
    return {int: "INT", float: "NUMBER", bool: "", dict: "MAPPING"}.get(kind, "TEXT")


def print_summary(summary: Mapping[str, Any]) -> None:
    """Print a run's summary, one line per figure; groups of figures as JSON."""
    for name, value in summary.items():
        print(printable(masked(f"{name}: {json.dumps(value) if isinstance(value, dict) else value}")))
