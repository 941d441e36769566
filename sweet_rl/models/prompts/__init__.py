"""The prompts of agent, human and judge, as text files with {name} for values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from sweet_rl.runs.errors import UserError

FOLDER = Path(__file__).parent


def load_prompt(path: str | Path, needed: Sequence[str], known: Sequence[str] = ()) -> str:
    """A prompt template. Text in braces that is no known name stays as it is.

    Args:
        path: a file, or the bare name of one of the package's own (`code_agent.txt`) if there is no such file here.
        needed: names that the template must contain.
        known: further names that are filled in, for the error.

    Raises:
        UserError: the file cannot be read, or a needed name is missing from it.
    """
    file = Path(path)
    if not file.is_file() and file.name == str(path) and (FOLDER / file.name).is_file():
        file = FOLDER / file.name
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        own = ", ".join(sorted(one.name for one in FOLDER.glob("*.txt")))
        raise UserError(f"no prompt can be read from {path}: {error}. The package's own are {own}.") from error
    return check_prompt(text.removesuffix("\n"), str(file), needed, known)


def check_prompt(text: str, name: str, needed: Sequence[str], known: Sequence[str] = ()) -> str:
    """The template `text`. Raises UserError, with the prompt's name, if a needed name is missing from it."""
    missing = [one for one in needed if f"{{{one}}}" not in text]
    if missing:
        raise UserError(
            f"the prompt {name} does not contain {', '.join(f'{{{one}}}' for one in missing)}. "
            f"These names are filled in: {', '.join(f'{{{one}}}' for one in [*needed, *known])}."
        )
    return text


def fill(template: str, **values: object) -> str:
    """The template with each {name} of `values` replaced. Braces inside a value are not filled in again."""
    if not values:
        return template
    pattern = "|".join(re.escape(f"{{{name}}}") for name in values)
    return re.sub(pattern, lambda match: str(values[match.group()[1:-1]]), template)
