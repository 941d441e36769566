"""Load a domain (`--task_type FILE`) or a critic (`--critic_type FILE`) from a user's Python file."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from typing import Any

from sweet_rl.runs.errors import UserError


def load_from_file(path: str | Path, name: str, flag: str) -> Any:
    """Run the file and return its attribute `name`. A file that has changed since an earlier call is run anew.

    The file may import its neighbours: its folder, or for a file inside a package the folder that holds the package,
    is added to the end of `sys.path`.

    Args:
        path: The Python file.
        name: Name of the attribute, for example "DOMAIN".
        flag: Flag that named the file, for messages.

    Raises:
        UserError: There is no such file, it cannot be imported, or it does not define `name`.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{flag}: there is no file {path}.")
    path = path.resolve()
    folder = path.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    module_name = f"sweet_rl_user_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{flag}: {path} is no Python file (its name must end with .py).")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # because dataclasses look up their module while the file runs
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[module_name]
        raise UserError(f"{flag}: {error_in(path, error)}") from error
    if not hasattr(module, name):
        raise UserError(f"{flag}: {path} defines no {name}.")
    return getattr(module, name)


def error_in(path: Path, error: BaseException) -> str:
    """The file, its line that had the last part in the error, and the error, in one line of text."""
    line = line_of(error, path)
    return f"{path}{f', line {line}' if line else ''}: {type(error).__name__}: {error}"


def line_of(error: BaseException, path: Path) -> int | None:
    """The number of the last line of the file that had a part in the error or in its cause; None if it had none."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    if lines:
        return lines[-1]
    return None if error.__cause__ is None else line_of(error.__cause__, path)
