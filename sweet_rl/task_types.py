"""The names that `--task_type` takes, and the domain that each stands for. A domain is loaded when it is asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sweet_rl.domains import Domain
from sweet_rl.errors import UserError
from sweet_rl.user_file import load_from_file

NAMES = ("code", "html", "mini")


def load_domain(name: str) -> Domain:
    """The domain that `--task_type` names.

    Args:
        name: Name: code, html, mini, or the path of a Python file that defines `DOMAIN`.

    Raises:
        UserError: There is no such name or file, the file cannot be imported, or its `DOMAIN` is no `Domain`.
    """
    if name in NAMES:
        return _packaged(name)
    if not name.endswith(".py"):
        raise UserError(
            f"--task_type is {name!r}; it must be one of {', '.join(NAMES)}, or the path of a Python file with a "
            "DOMAIN (docs/your_own_domain.md)."
        )
    return _from_file(Path(name))


def _packaged(name: str) -> Domain:
    """A domain of the package; code also knows the mini agent and the scripted human of its tasks."""
    from sweet_rl.domains.backend import environment as backend
    from sweet_rl.domains.frontend import environment as frontend
    from sweet_rl.mini.domains import MINI

    if name == "html":
        return frontend.DOMAIN
    if name == "mini":
        return MINI
    return replace(
        backend.DOMAIN,
        agent_prompts=MINI.agent_prompts,
        scripted_humans=MINI.scripted_humans,
        label_turn=MINI.label_turn,
    )


def _from_file(path: Path) -> Domain:
    domain = load_from_file(path, "DOMAIN", "--task_type")
    if not isinstance(domain, Domain):
        raise UserError(
            f"--task_type: {path} has a DOMAIN that is a {type(domain).__name__}; it must end with DOMAIN = Domain(...)"
            " (docs/your_own_domain.md)."
        )
    return replace(domain, source=path.resolve())
