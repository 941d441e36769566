"""The protocols of the dialogues that a model was trained on, read from the manifests of the steps behind it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sweet_rl.models.weights import model_path
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.hub import is_on_hub
from sweet_rl.runs.manifest import read_manifest
from sweet_rl.runs.records import Trajectory, read_rows


def other_protocol(model: str, protocol: str) -> str | None:
    """One line for people if a model was trained on dialogues of another protocol than `protocol`; None if not.

    Args:
        model: Checkpoint folder, or a name that is no folder, of which nothing is known.
        protocol: Protocol that it is going to play under.
    """
    for found, path in _protocols(model_path(model), set()):
        if found != protocol:
            return (
                f"{model} was trained on dialogues of the protocol {found} ({path}), but plays under {protocol}, with "
                f"other prompts than in its training: --protocol {found} asks it as it was trained."
            )
    return None


def _protocols(path: str, seen: set[str]) -> Iterator[tuple[str, str]]:
    """(protocol, file) of the first dialogue of each file that the training of a model goes back to.

    A model is traced to its dataset and the model that it was trained from, a file to the files that it was made of;
    what is no longer at its place is left out.
    """
    if path in seen or is_on_hub(path):
        return
    seen.add(path)
    try:
        manifest = read_manifest(path)
        if not Path(path).is_dir():
            row = next((row for _, row in read_rows(path)), {})
            if "dialogue_history" in row:
                if protocol := Trajectory.from_dict(row).protocol:
                    yield protocol, path
                return
    except (UserError, OSError):
        return
    for source in (manifest or {}).get("inputs") or ():
        if Path(path).is_dir() or not Path(source).is_dir():  # candidates are ranked by a model, but not its words
            yield from _protocols(source, seen)
