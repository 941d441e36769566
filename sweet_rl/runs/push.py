"""Uploads a finished output to the Hugging Face hub, with a card that says how it was made.

A new repository is private; its owner publishes it on the hub. Of paths on this disk the card shows the last part only.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from sweet_rl.errors import UserError, first_line
from sweet_rl.runs.manifest import DIRECTORY_MANIFEST
from sweet_rl.runs.run import DirectoryRun, Run

Output = TypeVar("Output", Run, DirectoryRun)
NOT_UPLOADED = (DIRECTORY_MANIFEST, "README.md")  # the card takes their place: a manifest has paths of this machine


@contextlib.contextmanager
def pushed(run: Output, repository: str | None, path: str | Path | None = None) -> Iterator[Output]:
    """Open a run, and upload its output if the run is finished when it is left without an error.

    Args:
        run: The run, just opened. A finished one is uploaded again, which changes nothing if it is there.
        repository: OWNER/NAME on the hub, or NAME for the user's own; None uploads nothing.
        path: The file to upload, if it is not the run's own output.

    Raises:
        UserError: There is no access to the hub, found before any work, or the upload fails. The output stays.
    """
    with run:
        if repository is not None:
            _check_access(repository)
        yield run
        if repository is not None and run.complete:
            _push(Path(path or run.path), run.manifest.content, repository)


def card(name: str, manifest: Mapping[str, Any], trained: bool) -> str:
    """Return the README.md of an output: metadata, settings, inputs by their hashes, results and versions.

    Args:
        name: Of the file or model.
        manifest: Content of the manifest of its run.
        trained: Whether it is a model.
    """
    settings, versions = manifest["settings"], manifest["versions"]
    metadata = {"tags": ["sweet-rl"]}
    base = settings.get("pretrain")
    if trained:
        metadata["library_name"] = "transformers"
        if isinstance(base, str) and base.count("/") == 1 and not Path(base).exists():
            metadata["base_model"] = base
    else:
        metadata["configs"] = [{"config_name": "default", "data_files": name}]
    inputs = {_shown(path): f"sha256 {digest}" for path, digest in manifest["inputs"].items()}
    lines = ["---", *(f"{key}: {json.dumps(value)}" for key, value in metadata.items()), "---", "", f"# {name}", ""]
    lines += [f"Made by sweet_rl {versions['sweet_rl']}, finished {manifest.get('finished', 'not yet')}.", ""]
    for title, rows in (("Settings", settings), ("Inputs", inputs), ("Results", manifest["summary"])):
        if rows:
            lines += [f"## {title}", "", "| name | value |", "| --- | --- |"]
            lines += [f"| {key} | `{_cell(value)}` |" for key, value in rows.items() if value is not None]
            lines.append("")
    lines += ["## Versions", "", ", ".join(f"{package} {version}" for package, version in versions.items()), ""]
    return "\n".join(lines)


def _check_access(repository: str) -> None:
    from huggingface_hub import HfApi
    from huggingface_hub.utils import validate_repo_id

    with _hub_errors(f"nothing can be uploaded to {repository}"):
        validate_repo_id(repository)
        HfApi().whoami()


def _push(output: Path, manifest: Mapping[str, Any], repository: str) -> None:
    """Upload a dataset (a file) or a model (a folder) and its card, in one commit."""
    from huggingface_hub import CommitOperationAdd, HfApi

    trained = output.is_dir()
    folder = output if trained else output.parent
    files = sorted(path for path in folder.rglob("*") if path.is_file()) if trained else [output]
    files = [path for path in files if path.name not in NOT_UPLOADED]
    text = card(output.resolve().name, manifest, trained)
    operations = [CommitOperationAdd(path.relative_to(folder).as_posix(), path) for path in files]
    operations.append(CommitOperationAdd("README.md", text.encode()))
    kind = "model" if trained else "dataset"
    with _hub_errors(f"{output} is finished, but was not uploaded to {repository}"):
        api = HfApi()
        url = api.create_repo(repository, repo_type=kind, private=True, exist_ok=True)
        api.create_commit(url.repo_id, operations, repo_type=kind, commit_message="Upload with sweet_rl")
    print(f"{output} -> {url}")


@contextlib.contextmanager
def _hub_errors(what: str) -> Iterator[None]:
    from huggingface_hub.errors import HFValidationError, HTTPError

    try:
        yield
    except (HFValidationError, HTTPError, OSError) as error:
        reason = first_line(error)
        raise UserError(
            f"{what}: {reason}. Log in with `hf auth login` and a token that may write, then give the same command "
            "again: what is finished is not made again."
        ) from error


def _shown(value: Any) -> Any:
    """Return a value without the folders of this machine."""
    if isinstance(value, dict):
        return {key: _shown(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_shown(one) for one in value]
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


def _cell(value: Any) -> str:
    """Return a value for a cell of a Markdown table."""
    value = _shown(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.replace("|", "\\|").replace("`", "'").replace("\n", " ")
