"""Run a script's `main` with the settings of a command line and of a config file."""

from __future__ import annotations

import atexit
import gc
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import fire
import yaml
from fire.decorators import SetParseFn

from sweet_rl.runs.cli.configs import find_config
from sweet_rl.runs.cli.groups import CONFIG, Flag, arguments, flags_of, known_names
from sweet_rl.runs.cli.help import help_text
from sweet_rl.runs.cli.process import hide_word, leave_process_group, note_command_line, redact_output, set_environment
from sweet_rl.runs.cli.released import Released
from sweet_rl.runs.cli.removed import REMOVED
from sweet_rl.runs.cli.values import coerce, is_bool_word, name_of, read_yaml, takes_bool
from sweet_rl.runs.errors import UserError, extras_named, os_error_text
from sweet_rl.runs.printable import printable


def run(main: Callable[..., Any], command: Sequence[str] | None = None, released: Released | None = None) -> None:
    """Run `main` with the flags of the command line and exit the process if that fails.

    `--flag value`, `--flag=value`, `--flag` and `--noflag` for booleans, `--config FILE.yaml` for any of them
    (a flag on the command line wins), `--help`. Values are checked against the annotations of `main` and of its
    groups. Exit codes: 0 done, 1 nothing came out, 2 UserError or an error of the operating system (only the message,
    on stderr), 130 interrupted.

    Args:
        main: Function whose parameters are the settings; see the docstring of this package.
        command: Words of the command line. Default: those of this process.
        released: Table of the release's script, whose command lines are taken too.
    """
    set_environment()
    redact_output()
    atexit.register(gc.freeze)  # or Python looks for cycles among the objects of torch when it exits: over a second
    words = sys.argv[1:] if command is None else list(command)
    note_command_line(inspect.getfile(inspect.unwrap(main)), words)
    try:
        if "--help" in words or "-h" in words:
            print(help_text(main, words[words.index("--help") + 1 :] if "--help" in words else ()), flush=True)
            sys.exit(0)
        with extras_named():
            main(**parse(main, _without_local_rank(words), released))
        leave_process_group()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
    except BrokenPipeError:  # `head` has closed the pipe, and Python would complain again when it exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.errno is None:  # of a library, with a message of its own
            raise
        print(printable(f"error: {os_error_text(error)}"), file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("\ninterrupted: run the same command again to continue", file=sys.stderr)
        sys.exit(130)


def parse(main: Callable[..., Any], command: Sequence[str], released: Released | None = None) -> dict[str, Any]:
    """Return the arguments for `main`: its own parameters that were given, and its groups. Arguments as in `run`.

    Raises:
        UserError: Unknown, missing, contradicting or ill-typed settings.
        TypeError: `main` has two settings of the same name.
    """
    return arguments(main, parse_flags(main, command, released))


def parse_flags(main: Callable[..., Any], command: Sequence[str], released: Released | None = None) -> dict[str, Any]:
    """Return the checked values by flag name that a command line and its `--config` give. Raises as `parse` does."""
    flags = flags_of(main)
    names = {name: flag for flag in (*flags.values(), CONFIG) for name in (flag.name, *flag.aliases)}
    if released is None:
        given, stray = split(command)
        if stray:
            raise UserError(
                f"{stray[0]!r} has no flag before it. Every value needs one: --name value. Several values are "
                "separated by commas."
            )
    else:
        names |= {there: flags[here] for there, here in released.names.items()}
        switches = {name for name, flag in names.items() if takes_bool(flag.kind)}
        given = _translated(released, *split(command, {*released.switches, *switches}, released.several))
    typed = {f"--{name}": _whole(name, value, names) for name, value in given.items()}
    values = _checked(typed, names)
    config = values.pop("config", None)
    if config is None:
        return values
    settings = {f"'{key}' in {config}": (key, value) for key, value in read_config(config).items()}
    return _checked(settings, {name: flag for name, flag in names.items() if flag is not CONFIG}) | values


def split(
    command: Sequence[str], switches: Collection[str] = (), several: Collection[str] = ()
) -> tuple[dict[str, str | None], list[str]]:
    """Split a command line with Fire into its flags and the values that have no flag before them.

    Args:
        command: Words of the command line.
        switches: Flags that take only true or false as their value, so that a path may follow.
        several: Flags that take all words up to the next flag.

    Returns:
        The text by flag, None for a flag that stands alone, and the other values.
    """
    given: dict[str, str | None] = {}
    stray: list[str] = []

    @SetParseFn(str)  # values stay text: the annotation of the flag decides about the type
    def collect(*values: str, **flags: str) -> None:
        stray.extend(values)
        given.update(flags)

    words = _joined(command, switches, several)
    alone = [word for word in words if _is_flag(word) and "=" not in word]
    fire.Fire(collect, command=[word for word in words if word not in alone])
    return given | {word[2:]: None for word in alone}, stray


def _joined(command: Sequence[str], switches: Collection[str], several: Collection[str]) -> list[str]:
    """The command with each flag and its value in one word, --name=value.

    Fire alone would take the path after a switch as its value, and only the first of several values.
    """
    joined: list[str] = []
    words = list(command)
    while words:
        word = words.pop(0)
        if not _is_flag(word) and word != "-":
            joined.append(word)
            continue
        if not word.startswith("--") or word == "--":
            raise UserError(
                f"unknown setting {word}. Flags have two dashes: --name value; a value that begins with a dash is "
                f"given as --name={word}."
            )
        name, equals, value = word[2:].partition("=")
        name = name.replace("-", "_")
        taken = [value] if equals else []
        while words and not equals and not _is_flag(words[0]) and (name in several or not taken):
            if name in switches and not is_bool_word(words[0]):
                if not _may_be_path(words[0]):
                    raise UserError(f"--{name} is {words[0]!r}; expected true or false.")
                break
            taken.append(words.pop(0))
        joined.append(f"--{name}={','.join(taken)}" if taken else f"--{name}")
    return joined


def _is_flag(word: str) -> bool:
    """Whether a word of the command line is a flag. A negative number is none."""
    return bool(re.match("--|-[a-zA-Z]", word))


def _may_be_path(word: str) -> bool:
    """Whether a word after a switch can be a value by position, a path or the name of a model, and not the switch's."""
    return bool(re.search(r"[/\\.]", word)) or os.path.exists(word)


def _translated(released: Released, given: Mapping[str, str | None], values: Sequence[str]) -> dict[str, str | None]:
    """The flags of a command line of the release here. Print what is said about it, once for all processes."""
    line = released.translate(given, values)
    os.environ.update(line.environment)
    if key := line.environment.get("WANDB_API_KEY"):
        hide_word(key)
    if os.environ.get("RANK", "0") == "0":
        for text in line.lines:
            print(text)
    return line.given


def _whole(name: str, value: str | None, names: Mapping[str, Flag]) -> tuple[str, str | None]:
    """A flag with its text; for a flag that stands alone "true", or "false" for --noflag."""
    if value is not None:
        return name, value
    negated = name.removeprefix("no").lstrip("_")
    if name not in names and name.startswith("no") and negated in names:
        return negated, "false"
    if name in names and not takes_bool(names[name].kind):
        raise UserError(f"--{name} has no value; expected {name_of(names[name].kind)} after it.")
    return name, "true"


def _checked(given: Mapping[str, tuple[str, Any]], names: Mapping[str, Flag]) -> dict[str, Any]:
    """Values of the right type by flag name, from {where it was given: (flag or alias, value)}."""
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    for where, (key, value) in given.items():
        if key not in names and key in REMOVED:
            raise UserError(f"{where} is gone: {REMOVED[key]}")
        if key not in names:
            raise UserError(f"unknown setting {where}. {known_names(key, names)}")
        flag = names[key]
        value = coerce(value, flag.kind, where)
        if flag.name.endswith("seed") and isinstance(value, int) and not 0 <= value < 2**32:
            raise UserError(f"{where} is {value}; a seed must be at least 0 and below 2**32.")
        if flag.name in values and values[flag.name] != value:
            raise UserError(f"{places[flag.name]} and {where} mean the same: give one of them.")
        values[flag.name], places[flag.name] = value, where
    return values


def read_config(path: str) -> dict[str, Any]:
    """Return the settings of a `--config` file. Raises UserError if it is none that can be read."""
    try:
        content = read_yaml(find_config(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(
            f"--config {path}: {error.strerror}. Give the path of a YAML file, or the name of a packaged one."
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"--config {path}: not a YAML file that can be read. {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise UserError(f"--config {path}: expected lines 'name: value', found {type(content).__name__}.")
    return content


def _without_local_rank(command: Sequence[str]) -> list[str]:
    """The command without the `--local_rank=N` that DeepSpeed's launcher adds; LOCAL_RANK says the same."""
    launched = "LOCAL_RANK" in os.environ
    return [word for word in command if not (launched and re.fullmatch(r"--local[_-]rank=\d+", word))]


def print_summary(summary: Mapping[str, Any]) -> None:
    """Print a run's summary, one line per figure; groups of figures as JSON."""
    for name, value in summary.items():
        print(printable(f"{name}: {json.dumps(value) if isinstance(value, dict) else value}"))
