"""The texts given to the agent and to the simulated human, as files, and how they are filled in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from sweet_rl.errors import UserError

FOLDER = Path(__file__).parent


def load_prompt(path: str | Path, needed: Sequence[str], known: Sequence[str] = ()) -> str:
    """A prompt template from a file; a bare name without a folder that is no file here (`code_agent.txt`)
    is one of the package's own.

    A template holds {name} where a value goes. Raises UserError if there is no such file, or a needed name is
    missing from it; any other text in braces is left as it stands.
    """
    file = Path(path)
    if not file.is_file() and file.name == str(path) and (FOLDER / file.name).is_file():
        file = FOLDER / file.name
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        own = ", ".join(sorted(one.name for one in FOLDER.glob("*.txt")))
        raise UserError(f"no prompt can be read from {path}: {error}. The package's own are {own}.") from error
    missing = [name for name in needed if f"{{{name}}}" not in text]
    if missing:
        raise UserError(
            f"the prompt {file} does not contain {', '.join(f'{{{name}}}' for name in missing)}. "
            f"These names are filled in: {', '.join(f'{{{name}}}' for name in [*needed, *known])}."
        )
    return text.removesuffix("\n")


def fill(template: str, **values: object) -> str:
    """The template with each {name} of `values` replaced, all at once: braces inside a value stay as they
    are."""
    pattern = "|".join(re.escape(f"{{{name}}}") for name in values)
    return re.sub(pattern, lambda match: str(values[match.group()[1:-1]]), template) if values else template
