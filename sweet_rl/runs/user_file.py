"""Load a domain (`--task_type FILE`) or a critic (`--critic_type FILE`) from a user's Python file.

The files beside it that it imports belong to it: they are run from the bytes that its hash is of.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import hashlib
import importlib.util
import math
import os
import sys
import traceback
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from sweet_rl.runs.errors import ItemError, UserError

# What a user's code may raise. SystemExit would end the command in silence, CancelledError all dialogues.
USER_ERRORS = (Exception, SystemExit, asyncio.CancelledError)

_read: dict[Path, bytes] = {}  # content of the users' files as they were run
_neighbours: dict[str, Path] = {}  # the file of a module that lies beside a user's file


def load_from_file(path: str | Path, name: str, flag: str) -> Any:
    """Run the file and return its attribute `name`. A file that has changed since an earlier call is run anew.

    The file may import its neighbours: its folder, or for a file inside a package the folder that holds the package,
    is added to the end of `sys.path`. Neighbours of one name beside two files are two modules, if they are imported
    while the files are loaded.

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
    if path.suffix != ".py":
        raise UserError(f"{flag}: {path} is no Python file (its name must end with .py).")
    folder = str(_root(path))
    if folder not in sys.path:
        sys.path.append(folder)
    files = _sources(path, fresh=True)
    for neighbour, (beside, content) in files.items():
        old = getattr(sys.modules.get(neighbour), "__file__", None)
        if old is not None and (Path(old) != beside or _read.get(beside, content) != content):
            del sys.modules[neighbour]  # of another folder, or of before an edit
    _read.update(files.values())
    _neighbours.update({neighbour: beside for neighbour, (beside, _) in files.items() if neighbour})
    place = hashlib.sha256(os.fsencode(path)).hexdigest()[:8]  # two files of one stem are two modules
    module = ModuleType(f"sweet_rl_user_file_{path.stem}@{place}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # because dataclasses look up their module while the file runs
    try:
        with errors_named(flag, path, passed=()):
            exec(compile(files[""][1], str(path), "exec", dont_inherit=True), vars(module))
    except BaseException:
        del sys.modules[module.__name__]
        raise
    if not hasattr(module, name):
        raise UserError(f"{flag}: {path} defines no {name}.")
    return getattr(module, name)


def hash_user_file(path: Path) -> str:
    """The SHA-256 of a Python file and of the files beside it that it imports, directly or not.

    Of a file that this process has loaded, it is that of the content that was run. An import counts wherever it stands
    in the code; a module whose name is computed does not, nor does one that is installed.
    """
    files = _sources(path.resolve())
    digests = {module: hashlib.sha256(content).hexdigest() for module, (_, content) in files.items()}
    if len(digests) == 1:
        return digests[""]
    return hashlib.sha256("".join(f"{module} {digests[module]}\n" for module in sorted(digests)).encode()).hexdigest()


def _sources(path: Path, fresh: bool = False) -> dict[str, tuple[Path, bytes]]:
    """(path, content) of the file, as module "", and of the neighbours that it imports, by their module names.

    Args:
        path: The file, resolved.
        fresh: Whether all are read from the disk, also those that were run before.
    """

    def content(place: Path) -> bytes:
        return place.read_bytes() if fresh or place not in _read else _read[place]

    root = _root(path)
    found = {"": (path, content(path))}
    waiting = [(path, ".".join(path.parent.relative_to(root).parts))]
    while waiting:
        importer, package = waiting.pop()
        for name in _imports(content(importer), package):
            parts = name.split(".")
            for module in (".".join(parts[:end]) for end in range(1, len(parts) + 1)):
                place = None if module in found or not _is_beside(parts[0], root) else _file_of(module, root)
                if place is not None:
                    found[module] = (place, content(place))
                    waiting.append((place, module if place.name == "__init__.py" else module.rpartition(".")[0]))
    return found


def _root(path: Path) -> Path:
    """The folder in which imports of a file are looked up: above the package that it is in."""
    folder = path.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _imports(content: bytes, package: str) -> Iterator[str]:
    """The names of the modules that may be imported by code that stands in `package`."""
    try:
        nodes = list(ast.walk(ast.parse(content)))
    except (SyntaxError, ValueError):  # reported when it is run
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                yield node.args[0].value


def _is_beside(top: str, root: Path) -> bool:
    """Whether a top-level module is not one of Python, of this package, or installed: these win."""
    if not top or top in sys.stdlib_module_names or top == "sweet_rl":
        return False
    others = [entry for entry in sys.path if Path(entry).resolve() not in {root, *map(_root, _read)}]
    found = PathFinder.find_spec(top, others)
    return found is None or found.origin is None


def _file_of(module: str, root: Path) -> Path | None:
    base = root.joinpath(*module.split("."))
    return next((place for place in (base / "__init__.py", Path(f"{base}.py")) if place.is_file()), None)


class _Loader(SourceFileLoader):
    """Runs the content that was hashed, because a compiled copy on disk may be that of an older file."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(_read[Path(self.path)], self.path)


class _Finder:
    """Finds the neighbours of users' files, those of the file that was loaded last first."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        place = _neighbours.get(name)
        if place is None:
            return None
        return importlib.util.spec_from_file_location(name, place, loader=_Loader(name, str(place)))


sys.meta_path.insert(0, _Finder)  # type: ignore[arg-type]


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
    files = {str(path), *map(str, _read)}
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
