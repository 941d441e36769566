"""The domain that `--task_type` names: one of the package, or that of a Python file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from sweet_rl.dialogues.domain import FLAG, Domain
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.user_file import load_from_file


def named_domain(name: str, packaged: Mapping[str, Domain]) -> Domain:
    """The domain called `name`.

    Args:
        name: Name of a domain of the package, or the path of a Python file that defines `DOMAIN`.
        packaged: The package's own domains by their names.

    Raises:
        UserError: There is no such name or file, the file cannot be imported, or its `DOMAIN` is no `Domain`.
    """
    if name in packaged:
        return packaged[name]
    if not name.endswith(".py"):
        raise UserError(
            f"--task_type is {name!r}; it must be one of {', '.join(packaged)}, or the path of a Python file with a "
            "DOMAIN (docs/your_own_domain.md)."
        )
    path = Path(name)
    domain = load_from_file(path, "DOMAIN", FLAG)
    if not isinstance(domain, Domain):
        raise UserError(
            f"--task_type: {path} has a DOMAIN that is a {type(domain).__name__}; it must end with DOMAIN = Domain(...)"
            " (docs/your_own_domain.md)."
        )
    return replace(domain, source=path.resolve())
