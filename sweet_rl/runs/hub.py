"""The files of the published ColBench by short names, downloaded from the Hugging Face hub when they are first used.

A copy in the hub's cache is used as it is. A path that exists is always that path.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from sweet_rl.runs.errors import UserError, first_line

REPOSITORY = "facebook/collaborative_agent_bench"
FILES = {
    "colbench/backend/train": "backend_tasks/train.jsonl",
    "colbench/backend/test": "backend_tasks/test.jsonl",
    "colbench/backend/offline": "colbench_code_offline_15k_llama8b.jsonl",
}


def is_on_hub(name: str | Path) -> bool:
    """Whether a name means a file on the hub: it is a short name, and there is no such path."""
    return str(name) in FILES and not Path(name).exists()


def local_path(name: str | Path) -> Path:
    """The file that a name means; one on the hub is downloaded if needed. A path is returned as it is.

    Raises:
        UserError: It is neither in the cache nor can be downloaded.
    """
    return _downloaded(str(name)) if is_on_hub(name) else Path(name)


@cache
def _downloaded(name: str) -> Path:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HTTPError, LocalEntryNotFoundError

    file = FILES[name]
    try:
        try:
            path = hf_hub_download(REPOSITORY, file, repo_type="dataset", local_files_only=True)
        except LocalEntryNotFoundError:
            path = hf_hub_download(REPOSITORY, file, repo_type="dataset")
        return Path(path)
    except (HTTPError, OSError) as error:
        raise UserError(
            f"{name} is not in the cache of the Hugging Face hub and cannot be downloaded ({first_line(error)}). With "
            f"a network, `hf download {REPOSITORY} {file} --repo-type dataset` puts it there."
        ) from error
