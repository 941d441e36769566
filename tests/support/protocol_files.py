"""Files of a protocol with texts of our own, and their hashes in place of the published ones."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import ModuleType

import pytest

from sweet_rl.dialogues.released import ProtocolFile

AGENT = "Ask about the function.\n{dialogue_history}\n"
HUMAN = "It is {problem_description}; you wrote {hidden_information}.\n\n{dialogue_history}"
BACKEND = {"BACKEND_AGENT": ("a.txt", AGENT), "BACKEND_HUMAN": ("h.txt", HUMAN)}


def protocol_files(
    folder: Path, patch: pytest.MonkeyPatch, module: ModuleType, texts: dict[str, tuple[str, str]]
) -> str:
    """Write the files of a protocol, whose hashes `module` then has.

    Args:
        folder: Folder in which the folder of the files is made.
        patch: What undoes the change.
        module: `sweet_rl.dialogues.released`.
        texts: (path, text) by the name of the constant.

    Returns:
        The value of --protocol_files.
    """
    for name, (path, text) in texts.items():
        place = folder / "files" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        patch.setattr(module, name, ProtocolFile(path, hashlib.sha256(text.encode()).hexdigest()))
    return str(folder / "files")
