"""A ChatModel from its name: a server's model, a checkpoint in this process, or the packaged tiny agent."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sweet_rl.chat import ChatFormat
from sweet_rl.errors import UserError
from sweet_rl.models.base import ChatModel
from sweet_rl.models.cache import CachedModel, CallCache
from sweet_rl.models.openai_server import OpenAIServer
from sweet_rl.runs.manifest import hash_input

logger = logging.getLogger(__name__)
PACKAGED = Path(__file__).parent / "packaged"
"""Folder of the models that the package carries, one folder each."""
ENGINES = ("auto", "transformers", "vllm", "openai")


def model_path(name: str) -> str:
    """The folder of a packaged model (`mini`, `mini_html`); any other name is returned unchanged."""
    packaged = PACKAGED / name
    return str(packaged) if re.fullmatch(r"\w+", name) and packaged.is_dir() else name


def model_input(name: str) -> str | None:
    """What a run's manifest hashes of a model: its folder; None for models that are not on this disk."""
    path = model_path(name)
    return path if Path(path).is_dir() else None


def load_model(
    name: str,
    engine: str = "auto",
    hostname: str | None = None,
    tokenizer: str | None = "auto",
    api_key: str | None = None,
    device: str | None = None,
    timeout: float = 600.0,
    concurrency: int = 256,
    patience: float = 600.0,
    request: Mapping[str, Any] | None = None,
    cache: CallCache | None = None,
    **engine_settings: Any,
) -> ChatModel:
    """The model called `name`.

    Args:
        name: `mini` or `mini_html`, a checkpoint folder, a hub name, or the name under which a server has it.
        engine: `auto` is a server if hostname is given, else vLLM where it is installed beside a GPU, else
            transformers; `openai` without hostname is the hosted API.
        hostname: host, host:port or URL; several separated by commas; `@FILE` names a file of them, read again when
            it changes.
        tokenizer: for servers: folder or hub name of the tokenizer, for exact token ids; None for none (the
            server lays the messages out); `auto` takes the model's name where that is a folder or looks
            like a hub name.
        timeout, concurrency, patience, request: of a server, as in OpenAIServer.
        cache: where calls are looked up before they are made.
        engine_settings: passed to the engine in this process.

    Raises UserError.
    """
    model = _load(
        name, engine, hostname, tokenizer, api_key, device, engine_settings,
        {"timeout": timeout, "concurrency": concurrency, "patience": patience, "request": request},
    )  # fmt: skip
    if cache is None:
        return model
    weights = model_input(name)
    identity = {
        "engine": type(model).__name__,
        "name": name if weights is None or isinstance(model, OpenAIServer) else hash_input(weights),
        "request": dict(request or {}),
        "engine_settings": {key: str(value) for key, value in sorted(engine_settings.items())},
    }
    return CachedModel(model, identity, cache)


def _load(
    name: str,
    engine: str,
    hostname: str | None,
    tokenizer: str | None,
    api_key: str | None,
    device: str | None,
    engine_settings: Mapping[str, Any],
    server_settings: Mapping[str, Any],
) -> ChatModel:
    if engine not in ENGINES:
        raise UserError(f"the engine {engine!r} is not known; choose one of {', '.join(ENGINES)}.")
    if hostname or engine == "openai":
        if engine not in ("auto", "openai"):
            raise UserError(
                f"a hostname ({hostname}) and the engine {engine} exclude each other: leave out one of them."
            )
        hosts = [host for host in (hostname or "").split(",") if host.strip()]
        chat = _server_chat(name, tokenizer)
        return OpenAIServer(name, hosts, api_key, chat, **server_settings)
    if request := server_settings["request"]:
        raise UserError(f"fields of a request ({', '.join(request)}) are for a model on a server: name its host.")
    path = model_path(name)
    if engine == "vllm" or (engine == "auto" and _gpu() and find_spec("vllm")):
        from sweet_rl.models.vllm_local import VLLMModel

        return VLLMModel(path, **engine_settings)
    from sweet_rl.models.transformers_local import TransformersModel

    return TransformersModel.from_pretrained(path, device=device, **engine_settings)


def _server_chat(name: str, tokenizer: str | None) -> ChatFormat | None:
    if tokenizer is None:
        return None
    if tokenizer != "auto":
        return ChatFormat.from_pretrained(tokenizer)
    if Path(name).is_dir():
        return ChatFormat.from_pretrained(name)
    if "/" not in name:
        return None
    try:
        return ChatFormat.from_pretrained(name)
    except UserError as error:
        logger.warning(
            "no tokenizer for %s, so the server lays out the messages and token ids are not kept: %s",
            name,
            error,
        )
        return None


def _gpu() -> bool:
    import torch

    return torch.cuda.is_available()
