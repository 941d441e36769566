"""The texts of the released protocol of ColBench, fetched by commit and SHA-256 when they are first needed.

They are CC-BY-NC 4.0 and no part of this package: they are downloaded to the user's cache, or read from a folder
(`--protocol_files DIR`) that holds them under the same paths. A text with another hash is refused.
"""

from __future__ import annotations

import ast
import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sweet_rl.runs.errors import UserError, first_line
from sweet_rl.runs.paths import cache_folder

REPOSITORY = "facebookresearch/sweet_rl"
COMMIT = "38daf2a58497e898a65ef530a7b1c13ff4b0f128"
ADDRESS = "https://raw.githubusercontent.com"
LICENCE = (
    f"The prompts of the released protocol are those of github.com/{REPOSITORY}, licensed CC-BY-NC 4.0 (no commercial "
    "use)."
)
SECONDS = 30


@dataclass(frozen=True)
class ProtocolFile:
    """One file of the protocol.

    Attributes:
        path: Path of the file in the repository.
        sha256: Hash of its bytes, in hex; None if it is fixed by the commit alone. A copy that was changed since it was
            fetched is refused in both cases.
    """

    path: str
    sha256: str | None


BACKEND_AGENT = ProtocolFile(
    "prompts/llm_agent_code_prompt.txt", "429c1c5ae65a2488ee8cb37058b9aff91341b2390de3beb934dd52a7580cdce3"
)
BACKEND_HUMAN = ProtocolFile(
    "prompts/human_simulator_code_prompt.txt", "0f522a5f95d06d7b1305ddb8850164d57eeef1a13114207261cd46f23e73928c"
)
FRONTEND_AGENT = ProtocolFile(
    "prompts/llm_agent_html_prompt.txt", "045b608288f5c38f0621d6afac38f3da63a5484208f9cc47d740264a0d184e88"
)
FRONTEND_HUMAN = ProtocolFile(
    "prompts/human_simulator_html_prompt.txt", "8e0dee786bfd203da4cb6f114577ac8486dccf077436736d0141c256d886a4d6"
)
FRONTEND_SENTENCES = ProtocolFile("sweet_rl/environments/human_design_interaction_env.py", None)


def copies_folder() -> Path:
    """The folder of this user's copies."""
    return cache_folder("protocol") / COMMIT


def protocol_text(file: ProtocolFile, folder: str | None = None) -> str:
    """The text of a file of the protocol.

    Args:
        file: The file.
        folder: Folder that holds the files under their paths; by default they are downloaded once to the cache.

    Raises:
        UserError: There is no such file in the folder, it cannot be downloaded, or its hash is another one.
    """
    if folder is not None:
        path = Path(folder, file.path)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise UserError(
                f"--protocol_files: {path} cannot be read ({first_line(error)}). The folder must hold the file under "
                f"this path, from {_address(file)}."
            ) from error
        return _checked(content, file, str(path))
    copy = copies_folder() / file.path
    if copy.is_file():
        return _checked(copy.read_bytes(), _as_first_fetched(file), str(copy))
    if not copies_folder().exists():
        print(LICENCE)
    print(f"{file.path} is downloaded to {copy}.", flush=True)
    content = _download(file)
    text = _checked(content, file, _address(file))
    copy.parent.mkdir(parents=True, exist_ok=True)
    if file.sha256 is None:
        _first_hash(file).write_text(hashlib.sha256(content).hexdigest())
    partial = copy.with_name(f"{copy.name}.{os.getpid()}.partial")
    partial.write_bytes(content)
    partial.replace(copy)
    return text


def file_hashes(files: Sequence[ProtocolFile], folder: str | None = None) -> dict[str, str]:
    """The SHA-256 of each file by its path. Arguments and errors as for `protocol_text`."""
    return {file.path: hashlib.sha256(protocol_text(file, folder).encode()).hexdigest() for file in files}


def text_values(source: str, function: str) -> list[str]:
    """The string constants with a space in them that are values of the key "text" in a function, in their order.

    Args:
        source: Text of a Python file; it is parsed and never run.
        function: Name of the function.

    Raises:
        ValueError: The file cannot be parsed, or has no such function.
    """
    named = (ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, named) and node.name == function:
            dicts = [one for one in ast.walk(node) if isinstance(one, ast.Dict)]
            pairs = [pair for one in dicts for pair in zip(one.keys, one.values, strict=True)]
            found = [
                value
                for key, value in pairs
                if isinstance(key, ast.Constant)
                and key.value == "text"
                and isinstance(value, ast.Constant)
                and isinstance(value.value, str)
                and " " in value.value
            ]
            return [str(value.value) for value in sorted(found, key=lambda one: (one.lineno, one.col_offset))]
    raise ValueError(f"there is no function {function}")


def _first_hash(file: ProtocolFile) -> Path:
    """The file with the hash that a file without one of its own had when it was first fetched."""
    return copies_folder() / f"{file.path}.sha256"


def _as_first_fetched(file: ProtocolFile) -> ProtocolFile:
    found = _first_hash(file)
    return ProtocolFile(file.path, found.read_text().strip()) if file.sha256 is None and found.is_file() else file


def _address(file: ProtocolFile) -> str:
    return f"{ADDRESS}/{REPOSITORY}/{COMMIT}/{file.path}"


def _download(file: ProtocolFile) -> bytes:
    try:
        with urllib.request.urlopen(_address(file), timeout=SECONDS) as reply:
            return reply.read()
    except (urllib.error.URLError, OSError) as error:
        raise UserError(
            f"{_address(file)} cannot be downloaded ({first_line(error)}). Without a network give --protocol_files, a "
            "folder with the files under the same paths; --protocol sweet_rl needs none."
        ) from error


def _checked(content: bytes, file: ProtocolFile, where: str) -> str:
    found = hashlib.sha256(content).hexdigest()
    if file.sha256 is not None and found != file.sha256:
        raise UserError(
            f"{where} is not the file of the released protocol: its SHA-256 is {found}, not {file.sha256}. "
            "Remove it, and it is fetched again; or correct --protocol_files."
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{where} is no text in UTF-8: {error}.") from error
