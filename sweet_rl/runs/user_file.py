"""Load a domain (`--task_type FILE`) or a critic (`--critic_type FILE`) from a user's Python file."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import sweet_rl
from sweet_rl.runs.errors import UserError

Kind = TypeVar("Kind")

_neighbours: dict[Path, dict[str, Path]] = {}
"""{user's file: {module: file}} of the modules that it has loaded from its folder."""


def load_from_file(path: str | Path, name: str, flag: str) -> Any:
    """Run a Python file, which `flag` named, and return its attribute `name`. Errors of its own code are raised.

    The file may import its neighbours: its folder, or for a file inside a package the folder that holds the package, is
    searched first while it runs and last from then on. Neighbours are loaded anew for each file.

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


def named_or_loaded(
    name: str, packaged: Mapping[str, Kind], attribute: str, flag: str, kind: type[Kind], page: str
) -> Kind:
    """What a flag names: one of the package, or the `attribute` of the class `kind` that a user's Python file defines.

    Raises:
        UserError: There is no such name or file, or the attribute is of another class. The message names the `page` of
            the manual.
    """
    if name in packaged:
        return packaged[name]
    if not name.endswith(".py"):
        raise UserError(
            f"{flag} is {name!r}; it must be one of {', '.join(packaged)}, or the path of a Python file with a "
            f"{attribute} ({page})."
        )
    value = load_from_file(name, attribute, flag)
    if not isinstance(value, kind):
        raise UserError(
            f"{flag}: {name} has a {attribute} that is a {type(value).__name__}; it must end with {attribute} = "
            f"{kind.__name__}(...) ({page})."
        )
    return value


def _loaded_beside(root: Path, names: set[str]) -> dict[str, Path]:
    """The files by name of those modules that lie in a folder, without what is installed there."""
    files = {name: Path(getattr(sys.modules[name], "__file__", None) or "") for name in names}
    installed = Path(sys.prefix), Path(sweet_rl.__file__).parent
    return {
        name: file
        for name, file in files.items()
        if file.is_relative_to(root) and not any(map(file.is_relative_to, installed))
    }


def hash_user_file(path: Path) -> str:
    """The SHA-256 of a Python file and of the modules of its folder that it has loaded."""
    path = path.resolve()
    files = {"": path} | _neighbours.get(path, {})
    digests = {module: hashlib.sha256(file.read_bytes()).hexdigest() for module, file in files.items()}
    if len(digests) == 1:
        return digests[""]
    return hashlib.sha256("".join(f"{module} {digests[module]}\n" for module in sorted(digests)).encode()).hexdigest()
