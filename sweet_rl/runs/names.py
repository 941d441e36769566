"""Names that stand for files on this disk: records on the Hugging Face hub.

- `hf://datasets/OWNER/NAME/FILE`, with `@REVISION` after NAME if wanted: a file of a dataset on the hub. A copy in the
  hub's cache is used as it is; `hf download` brings it up to date.
- `colbench/backend/train`, `colbench/backend/test`, `colbench/backend/offline`: files of the published ColBench.

A path that exists is always that path.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from sweet_rl.runs.errors import UserError, first_line

HUB = "hf://"
COLBENCH = "hf://datasets/facebook/collaborative_agent_bench/"
SHORT_NAMES = {
    "colbench/backend/train": COLBENCH + "backend_tasks/train.jsonl",
    "colbench/backend/test": COLBENCH + "backend_tasks/test.jsonl",
    "colbench/backend/offline": COLBENCH + "colbench_code_offline_15k_llama8b.jsonl",
}
_DATASET_FILE = re.compile(r"hf://datasets/([^/@]+/[^/@]+)(?:@([^/]+))?/(.+)")


def is_on_hub(name: str | Path) -> bool:
    """Whether a name means a file on the hub: it is spelt like one, and there is no such path."""
    return str(name).startswith((HUB, "colbench/")) and not Path(name).exists()


def local_path(name: str | Path) -> Path:
    """Return the file that a name means; one on the hub is downloaded if needed. A path is returned as it is.

    Raises:
        UserError: The name is no file of a dataset on the hub, or it is neither in the cache nor can be downloaded.
    """
    if not is_on_hub(name):
        return Path(name)
    text = str(name)
    uri = SHORT_NAMES.get(text, text)
    parts = _DATASET_FILE.fullmatch(uri)
    if parts is None:
        raise UserError(
            f"{text}: no such file. Give a path, hf://datasets/OWNER/NAME/FILE, or one of {', '.join(SHORT_NAMES)}."
        )
    return _downloaded(text, *parts.groups())


@cache
def _downloaded(name: str, repository: str, revision: str | None, file: str) -> Path:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HFValidationError, HTTPError, LocalEntryNotFoundError

    try:
        try:
            found = hf_hub_download(repository, file, repo_type="dataset", revision=revision, local_files_only=True)
        except LocalEntryNotFoundError:
            found = hf_hub_download(repository, file, repo_type="dataset", revision=revision)
        return Path(found)
    except (HFValidationError, HTTPError, OSError) as error:
        command = f"hf download {repository} {file} --repo-type dataset"
        command += f" --revision {revision}" if revision else ""
        reason = first_line(error)
        raise UserError(
            f"{name} is not in the cache of the Hugging Face hub and cannot be downloaded ({reason}). With a network, "
            f"`{command}` puts it there; a private dataset needs `hf auth login` before."
        ) from error
