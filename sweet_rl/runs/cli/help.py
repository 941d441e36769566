"""The text that `--help` prints: the script's own flags, then the names of the flags of each group of settings."""

from __future__ import annotations

import inspect
import re
import shutil
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import MISSING
from pathlib import Path
from typing import Any

from sweet_rl.runs.cli.groups import CONFIG, Flag, flags_of

COLUMN = 34
"""Column where the texts of the flags begin."""


def help_text(main: Callable[..., Any], asked: Sequence[str] = ()) -> str:
    """The purpose of a script and its flags, or a few flags in full.

    Args:
        main: Function of the script.
        asked: Names of the flags to explain in full; `all` for all flags with the first sentence of each text. Default:
            the same of the script's own flags, and of each group of settings the names and defaults.
    """
    flags = [*flags_of(main).values(), CONFIG]
    names = {name.lstrip("-").replace("-", "_") for name in asked}
    if chosen := [flag for flag in flags if names & {flag.name, *flag.aliases}]:
        return "\n".join(line for flag in chosen for line in _lines(flag, flag.help))
    groups: dict[str, list[Flag]] = {"Required": [], "Settings": []}
    for flag in flags:
        heading = "Required" if flag.default is MISSING else flag.heading or "Settings"
        groups.setdefault(heading, []).append(flag)
    purpose = inspect.cleandoc(main.__doc__ or "").partition("\nArgs:")[0].strip()
    usage = f"Usage: {Path(sys.argv[0]).name} FLAGS; `--help FLAG` explains one flag, `--help all` each in a sentence."
    parts = [f"{purpose}\n\n{usage}"]
    for heading, members in groups.items():
        if heading in ("Required", "Settings") or "all" in names:
            lines = [line for flag in members for line in _lines(flag, _first_sentence(flag.help))]
        else:
            lines = _wrap(" ".join(f"--{flag.name}={_default(flag)}".rstrip("=") for flag in members), 2)
        if lines:
            parts.append("\n".join([f"{heading}:", *lines]))
    return "\n\n".join(parts)


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.) (?=[A-Z`])", text)[0]  # not after "et al. 2023"


def _lines(flag: Flag, text: str) -> list[str]:
    """The name and the values of a flag, and beside it its text, default and other names."""
    if flag.default is True:
        text += f" [on; --no{flag.name}]"
    elif default := _default(flag):
        text += f" [{default}]"
    for name in flag.aliases:
        text += f" Also --{name}."
    left = f"  --{flag.name} {_values(flag.kind)}".rstrip()
    lines = _wrap(text, COLUMN)
    if len(left) >= COLUMN - 1 or not lines:
        return [left, *lines]
    return [left.ljust(COLUMN) + lines[0].strip(), *lines[1:]]


def _default(flag: Flag) -> str:
    """The default of a flag as text; nothing if it has none, or an empty one."""
    if flag.default in (MISSING, None, "", ()) or flag.default is False:
        return ""
    return ",".join(map(str, flag.default)) if isinstance(flag.default, tuple | list) else str(flag.default)


def _wrap(text: str, column: int) -> list[str]:
    width, indent = max(80, shutil.get_terminal_size((120, 24)).columns), " " * column
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _values(kind: Any) -> str:
    """What may stand after a flag: a placeholder, or the choices; nothing for a switch."""
    kinds = typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)
    kind = next(one for one in kinds if one is not type(None))
    if typing.get_origin(kind) is typing.Literal:
        return "|".join(map(str, typing.get_args(kind)))
    if typing.get_origin(kind) in (list, tuple):
        return "A,B,..."
    return {int: "INT", float: "NUMBER", bool: "", dict: "MAPPING"}.get(kind, "TEXT")
