"""Whether models can be read, without loading or downloading weights; what a server serves."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from sweet_rl.errors import UserError, first_line
from sweet_rl.model_loading import check_loadable, load_config, model_path, parameter_count
from sweet_rl.models.settings import ModelSettings
from sweet_rl.preflight.finding import Finding, failed, ok
from sweet_rl.training.memory import ModelShape

_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")


@dataclass(frozen=True)
class Model:
    """A model that can be read.

    Attributes:
        name: Its name.
        shape: Sizes that decide about memory.
        download: Bytes that must be downloaded, about.
    """

    name: str
    shape: ModelShape
    download: int = 0

    @property
    def heads(self) -> tuple[int, int, int]:
        """Numbers of query heads and of key heads, and the size of a head."""
        return self.shape.heads, self.shape.key_heads, self.shape.head_size


def check_model(name: str) -> tuple[Model | None, Finding]:
    """Read the configuration of a model, and see that its weights are there or may be downloaded.

    Args:
        name: Folder, packaged agent or name on the hub.
    """
    where = "on the hub"
    try:
        if Path(model_path(name)).is_dir():
            where = "here"
            check_loadable(name)
        elif _is_cached(name):
            where = "in the hub's cache"
        else:
            _check_access(name)
        shape = ModelShape.of(load_config(name), parameter_count(name))
    except UserError as error:
        return None, failed(f"models: {error}")
    model = Model(name, shape, 2 * shape.parameters if where == "on the hub" else 0)
    size = f", {model.download / 1e9:.1f} GB to download" if model.download else ""
    return model, ok(f"models: {name} can be read ({shape.parameters / 1e6:,.0f} million weights, {where}{size})")


def _is_cached(name: str) -> bool:
    """Whether weights of a model on the hub are in the cache."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        return any(isinstance(try_to_load_from_cache(name, file), str) for file in _WEIGHTS)
    except HFValidationError:
        return False


def _check_access(name: str) -> None:
    """Ask the hub for a file's size: it says whether this user may read the model. Raises UserError."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        HTTPError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    try:
        get_hf_file_metadata(hf_hub_url(name, "config.json"))
    except GatedRepoError as error:
        raise UserError(
            f"{name} is gated, and this user has no access: accept its licence at https://huggingface.co/{name}, then "
            "`hf auth login`, or set HF_TOKEN"
        ) from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise UserError(
            f"{name} is neither a folder nor a model on the hub that this user may see: correct the name, or "
            "`hf auth login` for a private one"
        ) from error
    except (HTTPError, OfflineModeIsEnabled, OSError) as error:
        raise UserError(
            f"{name} is neither a folder nor in the hub's cache, and the hub cannot be asked ({first_line(error)}): "
            f"with a network, `hf download {name}`"
        ) from error


def check_human(name: str, settings: ModelSettings) -> Finding:
    """Ask the servers of the simulated human what they serve.

    Args:
        name: The human's model.
        settings: Its servers and their key.
    """
    from sweet_rl.models.openai_server import OpenAIServer

    async def ask() -> list[str]:
        model = OpenAIServer(name, settings.urls(), settings.api_key(), timeout=30.0)
        try:
            await model.check()
            answers = await asyncio.gather(*map(model.servers.models, model.servers.all), return_exceptions=True)
        finally:
            await model.close()
        lists = [answer if isinstance(answer, list) else [] for answer in answers]
        return [f"{one.url} ({', '.join(names[:3])})" for one, names in zip(model.servers.all, lists, strict=True)]

    try:
        return ok(f"human: {name} is served by {', '.join(asyncio.run(ask()))}")
    except UserError as error:
        return failed(f"human: {error}")
