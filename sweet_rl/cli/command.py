"""Runs a script's `main` with the settings of a command line and of a config file."""

from __future__ import annotations

import atexit
import difflib
import gc
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING
from pathlib import Path
from typing import Any

import fire
import yaml
from fire.decorators import SetParseFn

from sweet_rl.cli.configs import find_config
from sweet_rl.cli.groups import Flag, arguments, flags_of
from sweet_rl.cli.quiet import quiet_libraries
from sweet_rl.cli.released import Released, words_of
from sweet_rl.cli.threads import share_cores
from sweet_rl.cli.values import coerce, is_flag, name_of, takes_bool
from sweet_rl.errors import UserError

_CONFIG = Flag(
    "config", str | None, None, "YAML file of settings, or a packaged one (paper/backend/critic.yaml); a flag on the "
    "command line wins", (), "config",
)  # fmt: skip


def run(main: Callable[..., Any], command: Sequence[str] | None = None, released: Released | None = None) -> None:
    """Run `main` with the flags of the command line and exit the process if that fails.

    `--flag value`, `--flag=value`, `--flag` and `--noflag` for booleans, `--config FILE.yaml` for any of them
    (a flag on the command line wins), `--help`. Values are checked against the annotations of `main` and of its
    groups. Exit codes: 0 done, 2 UserError (only its message, on stderr), 130 interrupted.

    Args:
        main: see the docstring of this package.
        command: words of the command line; default: those of this process.
        released: the script of the release whose command lines are taken too.
    """
    quiet_libraries()
    share_cores()
    atexit.register(gc.freeze)  # or Python looks for cycles among the objects of torch when it exits: over a second
    try:
        main(**parse(main, _without_local_rank(sys.argv[1:] if command is None else command), released))
        _leave_process_group()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("\ninterrupted: run the same command again to continue", file=sys.stderr)
        sys.exit(130)


def _without_local_rank(command: Sequence[str]) -> list[str]:
    """The command without the `--local_rank=N` that DeepSpeed's launcher adds; LOCAL_RANK says the same."""
    launched = "LOCAL_RANK" in os.environ
    return [word for word in command if not (launched and re.fullmatch(r"--local[_-]rank=\d+", word))]


def parse(main: Callable[..., Any], command: Sequence[str], released: Released | None = None) -> dict[str, Any]:
    """The arguments for `main`: its own parameters that were given, and its groups. Arguments as in `run`.

    Raises:
        UserError: unknown, missing, contradicting or ill-typed settings.
        TypeError: `main` has two settings of the same name.
    """
    return arguments(main, parse_flags(main, command, released))


def parse_flags(main: Callable[..., Any], command: Sequence[str], released: Released | None = None) -> dict[str, Any]:
    """The checked values by flag name that a command line and its `--config` give. Raises as `parse` does."""
    flags = flags_of(main)
    names = {name: flag for flag in flags.values() for name in (flag.name, *flag.aliases)}
    if released is not None:
        names |= {there: flags[here] for there, here in released.names.items()}
        command = _translated(released, command, names)
    given = _split_flags(main, names, command)
    config = given.pop("config", None)
    values: dict[str, Any] = {}
    if config is not None:
        values = _checked({f"'{key}' in {config}": (key, value) for key, value in _read_config(config).items()}, names)
    return values | _checked({f"--{key}": (key, value) for key, value in given.items()}, names)


def _translated(released: Released, command: Sequence[str], names: Mapping[str, Flag]) -> Sequence[str]:
    """A command line of the release as one of this script. Prints what is said about it, once for all processes."""
    if "--help" in command or "-h" in command:
        return command
    for word in command:
        _refuse_one_dash(word)
    switches = [name for name, flag in names.items() if takes_bool(flag.kind)]
    line = released.translate(command, switches)
    os.environ.update(line.environment)
    if line.secret:  # wandb sends the words of the command to its service
        sys.argv = [word.replace(line.secret, "***") for word in sys.argv]
    if os.environ.get("RANK", "0") == "0":
        for text in line.lines:
            print(text)
    return words_of(line)


def _checked(given: Mapping[str, tuple[str, Any]], names: Mapping[str, Flag]) -> dict[str, Any]:
    """Values of the right type by flag name, from {where it was given: (flag or alias, value)}."""
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    for where, (key, value) in given.items():
        if key not in names:
            raise _unknown(where, key, names)
        flag = names[key]
        value = coerce(value, flag.kind, where)
        if flag.name in values and values[flag.name] != value:
            raise UserError(f"{places[flag.name]} and {where} mean the same: give one of them.")
        values[flag.name], places[flag.name] = value, where
    return values


def _split_flags(main: Callable[..., Any], names: Mapping[str, Flag], command: Sequence[str]) -> dict[str, str]:
    """The flags of the command line as text. Fire splits them and prints the help.

    Names are checked before, because Fire calls its component first and complains about leftovers afterwards.
    """
    command = list(command)
    for_help = "--help" in command or "-h" in command
    if not for_help:
        command = [_word(word, command[i + 1 : i + 2], names) for i, word in enumerate(command)]
    found: dict[str, str] = {}

    def collect(*values: str, **flags: str) -> None:
        if values:
            raise UserError(f"{values[0]!r} has no flag before it. Every value needs one: --name value.")
        found.update({name: value for name, value in flags.items() if value is not None})

    shown = [_parameter(name, flag, for_help) for name, flag in {**names, "config": _CONFIG}.items()]
    if not for_help:
        shown.insert(0, inspect.Parameter("values", inspect.Parameter.VAR_POSITIONAL))
        SetParseFn(str)(collect)
    collect.__signature__ = inspect.Signature(shown)
    collect.__doc__ = _help(main, names)
    fire.Fire(collect, command=command, name=Path(sys.argv[0]).name)
    return found


def _parameter(name: str, flag: Flag, for_help: bool) -> inspect.Parameter:
    """A flag for Fire. Only the help shows defaults and what is required: a config file may give it."""
    default = None
    if for_help and name == flag.name:
        default = inspect.Parameter.empty if flag.default is MISSING else flag.default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=flag.kind)


def _help(main: Callable[..., Any], names: Mapping[str, Flag]) -> str:
    """The docstring that Fire prints: the purpose of `main`, and the text of each flag."""
    doc = main.__doc__ or getattr(inspect.getmodule(main), "__doc__", None) or ""
    purpose = inspect.cleandoc(doc).partition("\nArgs:")[0]
    shown = {**names, "config": _CONFIG}.items()
    texts = {name: flag.help if name == flag.name else f"another name for --{flag.name}" for name, flag in shown}
    lines = [f"    {name}: {text}" for name, text in texts.items() if text]
    return "\n".join([purpose.strip(), "", "Args:", *lines])


def _word(word: str, following: list[str], names: Mapping[str, Flag]) -> str:
    """A word of the command as Fire reads it. Raises UserError for an unknown flag or one without its value."""
    if not word.startswith("--"):
        _refuse_one_dash(word)
        return word
    name, equals, _ = word[2:].replace("-", "_").partition("=")
    bare = not equals and (not following or is_flag(following[0]))
    negated = name.removeprefix("no").lstrip("_")
    if name not in names and bare and name.startswith("no") and negated in names:
        return f"--{negated}=False"
    if name not in names and name != "config":
        raise _unknown(f"--{name}", name, names)
    kind = names.get(name, _CONFIG).kind
    if bare and not takes_bool(kind):
        raise UserError(f"--{name} has no value; expected {name_of(kind)} after it.")
    return word


def _refuse_one_dash(word: str) -> None:
    """Raise UserError for `-` and `-x`: Fire would stop there, or look for a flag with this first letter."""
    if word == "-" or (is_flag(word) and not word.startswith("--")):
        raise UserError(
            f"unknown setting {word}. Flags have two dashes: --name value; a value that begins with a dash is given "
            f"as --name={word}."
        )


def _unknown(where: str, name: str, names: Mapping[str, Flag]) -> UserError:
    known = [*names, "config"]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return UserError(
        f"unknown setting {where}. " + (f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known)}.")
    )


def _read_config(path: str) -> dict[str, Any]:
    try:
        content = yaml.safe_load(find_config(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(
            f"--config {path}: {error.strerror}. Give the path of a YAML file, or the name of a packaged one."
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"--config {path}: not a YAML file. {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise UserError(f"--config {path}: expected lines 'name: value', found {type(content).__name__}.")
    return content


def _leave_process_group() -> None:
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


def print_summary(summary: Mapping[str, Any]) -> None:
    """Print a run's summary, one line per figure; groups of figures as JSON."""
    for name, value in summary.items():
        print(f"{name}: {json.dumps(value) if isinstance(value, dict) else value}")
