"""The names that `--task_type` takes, and the domain that each stands for. A domain is loaded when it is asked for."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from dataclasses import replace
from pathlib import Path

from sweet_rl.environments.base import Domain
from sweet_rl.errors import UserError

NAMES = ("code", "html", "mini", "mini_html")


def load_domain(name: str) -> Domain:
    """The domain that `--task_type` names.

    Args:
        name: code, html, mini, mini_html, or the path of a Python file that defines `DOMAIN`.

    Raises:
        UserError: there is no such name or file, the file cannot be imported, or its `DOMAIN` is no `Domain`.
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
    """A domain of the package; code and html also know the mini agent and the scripted human of its tasks."""
    from sweet_rl.environments import backend, frontend
    from sweet_rl.mini.domains import MINI, MINI_HTML

    domain, mini = (frontend.DOMAIN, MINI_HTML) if name in ("html", "mini_html") else (backend.DOMAIN, MINI)
    if name == mini.name:
        return mini
    prompts = {mini.name: mini.agent_prompt}
    return replace(
        domain,
        agent_prompts=prompts,
        scripted_humans=mini.scripted_humans,
        label_turn=mini.label_turn,
        claimed_solution=mini.claimed_solution,
    )


def _from_file(path: Path) -> Domain:
    if not path.is_file():
        raise UserError(f"--task_type: there is no file {path}.")
    path = path.resolve()
    name = f"sweet_rl_domain_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their module while the file runs
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise UserError(f"--task_type: {path}{_line(error, path)}: {type(error).__name__}: {error}") from error
    domain = getattr(module, "DOMAIN", None)
    if not isinstance(domain, Domain):
        found = "defines no DOMAIN" if domain is None else f"has a DOMAIN that is a {type(domain).__name__}"
        raise UserError(f"--task_type: {path} {found}; it must end with DOMAIN = Domain(...) (sweet_rl.environments).")
    return replace(domain, source=path)


def _line(error: BaseException, path: Path) -> str:
    """The last line of the file that had a part in the error, as ", line N"."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f", line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f", line {lines[-1]}" if lines else ""
