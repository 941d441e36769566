"""Load a domain (`--task_type FILE`) or a critic (`--critic_type FILE`) from a user's Python file."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib.util
import math
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sweet_rl
from sweet_rl.runs.errors import ItemError, UserError

_neighbours: dict[Path, dict[str, Path]] = {}
"""By user's file the modules of its folder that it has loaded, and their files."""


def load_from_file(path: str | Path, name: str, flag: str) -> Any:
    """Run a Python file and return its attribute `name`. Errors of the file's own code are raised as they are.

    The file may import its neighbours: its folder, or for a file inside a package the folder that holds the package, is
    searched first while it runs and last from then on. Neighbours are loaded anew for each file.

    Args:
        path: The Python file.
        name: Name of the attribute, for example "DOMAIN".
        flag: Flag that named the file, for messages.

    Raises:
        UserError: There is no such file, or it does not define `name`.
    """
    if not Path(path).is_file() or Path(path).suffix != ".py":
        raise UserError(f"{flag}: there is no Python file {path}.")
    path = Path(path).resolve()
    root = path.parent
    while (root / "__init__.py").is_file():
        root = root.parent
    for module_name in {module_name for known in _neighbours.values() for module_name in known}:
        sys.modules.pop(module_name, None)  # of another folder, or of before an edit
    before = set(sys.modules)
    place = hashlib.sha256(os.fsencode(path)).hexdigest()[:8]  # two files of one stem are two modules
    spec = importlib.util.spec_from_file_location(f"sweet_rl_user_file_{path.stem}@{place}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # because dataclasses look up their module while the file runs
    sys.path.insert(0, str(root))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(root))
        sys.path.extend([] if str(root) in sys.path else [str(root)])
        _neighbours[path] = _loaded_beside(root, sys.modules.keys() - before - {spec.name})
    if not hasattr(module, name):
        raise UserError(f"{flag}: {path} defines no {name}.")
    return getattr(module, name)


def _loaded_beside(root: Path, names: set[str]) -> dict[str, Path]:
    """The files by name of those modules that lie in a folder, without what is installed there."""
    files = {name: Path(getattr(sys.modules[name], "__file__", None) or "") for name in names}
    installed = (Path(sys.prefix), Path(sweet_rl.__file__).parent)
    return {
        name: file
        for name, file in files.items()
        if file.is_relative_to(root) and not any(file.is_relative_to(one) for one in installed)
    }


def hash_user_file(path: Path) -> str:
    """The SHA-256 of a Python file and of the modules of its folder that it has loaded."""
    path = path.resolve()
    files = {"": path} | _neighbours.get(path, {})
    digests = {module: hashlib.sha256(file.read_bytes()).hexdigest() for module, file in files.items()}
    if len(digests) == 1:
        return digests[""]
    return hashlib.sha256("".join(f"{module} {digests[module]}\n" for module in sorted(digests)).encode()).hexdigest()


# Errors of users' code, as dialogues/ reports them ------------------------------------------------------------------

USER_ERRORS = (Exception, SystemExit, asyncio.CancelledError)
"""What a user's code may raise. SystemExit would end the command in silence, CancelledError all dialogues."""


def is_cancelled(error: BaseException) -> bool:
    """Whether the error is the end of a task that this program cancels; a user's code may raise the same error."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # in a thread
        return False
    return task is not None and task.cancelling() > 0


@contextlib.contextmanager
def errors_named(
    flag: str, path: Path | None, passed: tuple[type[Exception], ...] = (ItemError, UserError)
) -> Iterator[None]:
    """Turn what a user's code raises into a UserError with file and line, also an exit that would end the command.

    Args:
        flag: Flag that named the file, for the message.
        path: The user's file, resolved; None if it is not known, as for a cell of a notebook.
        passed: Errors that say all by themselves and stay what they are.
    """
    try:
        yield
    except passed:
        raise
    except USER_ERRORS as error:
        if is_cancelled(error):
            raise
        raise UserError(f"{flag}: {error_in(path, error)}") from error


def error_in(path: Path | None, error: BaseException) -> str:
    """The file or its neighbour, the line that had the last part in the error, and the error, in one line of text."""
    what = text_of(error) if isinstance(error, UserError) else f"{type(error).__name__}: {text_of(error)}"
    if path is None:
        return what
    place = place_of(error, path)
    return f"{path}: {what}" if place is None else f"{place[0]}, line {place[1]}: {what}"


def text_of(error: BaseException) -> str:
    """The text of an error, of a user's class too; "" if that cannot make one."""
    try:
        return str(error)
    except Exception:
        return ""


def place_of(error: BaseException, path: Path) -> tuple[Path, int] | None:
    """File and line of the user's code that had the last part in the error or its cause; None if it had none."""
    files = {str(path), *map(str, _neighbours.get(path, {}).values())}
    if isinstance(error, SyntaxError) and error.filename in files and error.lineno is not None:
        return Path(error.filename), error.lineno
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename in files and frame.lineno is not None:
            return Path(frame.filename), frame.lineno
    return None if error.__cause__ is None else place_of(error.__cause__, path)


def shown(value: Any) -> str:
    """The beginning of a value's `repr`, for a message, whatever the value is."""
    try:
        return repr(value)[:80]
    except Exception:  # of a user's class; of an int with thousands of digits
        return f"a {type(value).__name__}"


def finite_number(value: Any) -> float | None:
    """The value as a float; None if it is no number, not finite, or a truth value."""
    if not hasattr(type(value), "__float__") or isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return None
    try:
        number = float(value)
    except (ArithmeticError, TypeError, ValueError):  # 10**400; several numbers
        return None
    return number if math.isfinite(number) else None
