"""Paths like `hf://datasets/OWNER/NAME/FILE`, downloaded from the Hugging Face hub when they are first used.

- `hf://datasets/OWNER/NAME@REVISION/FILE`: a file of a dataset. A copy in the hub's cache is used as it is.
- `colbench/backend/train`, `colbench/backend/test`, `colbench/backend/offline`: files of the published ColBench.

A path that exists is always that path.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from sweet_rl.runs.errors import UserError, first_line

COLBENCH = "hf://datasets/facebook/collaborative_agent_bench/"
SHORT_NAMES = {
    "colbench/backend/train": COLBENCH + "backend_tasks/train.jsonl",
    "colbench/backend/test": COLBENCH + "backend_tasks/test.jsonl",
    "colbench/backend/offline": COLBENCH + "colbench_code_offline_15k_llama8b.jsonl",
}


def is_on_hub(name: str | Path) -> bool:
    """Whether a name means a file on the hub: it is spelt like one, and there is no such path."""
    return str(name).startswith(("hf://", "colbench/")) and not Path(name).exists()


def local_path(name: str | Path) -> Path:
    """The file that a name means; one on the hub is downloaded if needed. A path is returned as it is.

    Raises:
        UserError: The name is no file of a dataset on the hub, or it is neither in the cache nor can be downloaded.
    """
    return _downloaded(str(name)) if is_on_hub(name) else Path(name)


@cache
def _downloaded(name: str) -> Path:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HFValidationError, HTTPError, LocalEntryNotFoundError

    parts = re.fullmatch(r"hf://datasets/([^/@]+/[^/@]+)(?:@([^/]+))?/(.+)", SHORT_NAMES.get(name, name))
    if parts is None:
        raise UserError(
            f"{name}: no such file. Give a path, hf://datasets/OWNER/NAME/FILE, or one of {', '.join(SHORT_NAMES)}."
        )
    repository, revision, file = parts.groups()
    try:
        try:
            path = hf_hub_download(repository, file, repo_type="dataset", revision=revision, local_files_only=True)
        except LocalEntryNotFoundError:
            path = hf_hub_download(repository, file, repo_type="dataset", revision=revision)
        return Path(path)
    except (HFValidationError, HTTPError, OSError) as error:
        command = f"hf download {repository} {file} --repo-type dataset"
        command += f" --revision {revision}" if revision else ""
        raise UserError(
            f"{name} is not in the cache of the Hugging Face hub and cannot be downloaded ({first_line(error)}). With "
            f"a network, `{command}` puts it there; a private dataset needs `hf auth login` before."
        ) from error
