"""Loads a ChatModel by its name: a model on a server, a checkpoint in this process, or a packaged tiny agent.

`packaged/` holds the tiny agents `mini` and `mini_hard` (Backend Programming), one checkpoint folder each;
`sweet_rl.models.weights` finds them by these names.
"""

from __future__ import annotations

import logging
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sweet_rl.models.base import ChatModel
from sweet_rl.models.cache import CachedModel, CallCache
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import load_config, model_input, model_path
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import hash_input

logger = logging.getLogger(__name__)


def on_server(settings: ModelSettings) -> bool:
    """Return whether a model with these settings is on a server."""
    return bool(settings.hostname) or settings.engine == "openai"


def load_model(
    name: str,
    settings: ModelSettings | None = None,
    calls: CallSettings | None = None,
    cache: CallCache | None = None,
) -> ChatModel:
    """Return the model called `name`: a packaged agent, a checkpoint folder, or its name on the hub or on a server.

    `cache` takes the place of the one in `calls`, for models that share it. Raises UserError if the settings exclude
    each other, or the model cannot be loaded.
    """
    settings, calls = settings or ModelSettings(), calls or CallSettings()
    engine_settings = dict(settings.engine_settings or {})
    if settings.bf16 is not None:
        engine_settings = {"dtype": "bfloat16" if settings.bf16 else "float32", **engine_settings}
    model = _load(name, settings, calls, engine_settings)
    if cache is None and calls.cache:
        cache = CallCache(calls.cache)
    if cache is None:
        return model
    weights = model_input(name)
    identity = {
        "engine": type(model).__name__,
        "name": name if weights is None or on_server(settings) else hash_input(weights),
        "request": dict(settings.request or {}),
        "engine_settings": {key: str(value) for key, value in sorted(engine_settings.items())},
    }
    return CachedModel(model, identity, cache)


def _load(name: str, settings: ModelSettings, calls: CallSettings, engine_settings: dict[str, Any]) -> ChatModel:
    engine = settings.engine
    if on_server(settings):
        if engine in ("transformers", "vllm") or engine_settings:
            raise UserError(
                f"{name}: engine, bf16 and engine_settings are for a model in this process, and it is on a server: "
                "leave them out."
            )
        from sweet_rl.models.openai_server import OpenAIServer

        return OpenAIServer(
            name,
            *settings.server(),
            _server_chat(name, settings.tokenizer),
            timeout=calls.timeout,
            concurrency=calls.endpoint_concurrency,
            patience=calls.patience,
            request=settings.request,
        )
    if settings.request:
        raise UserError(f"{name}: request is for a model on a server: name its host.")
    path = model_path(name)
    if engine == "auto" and find_spec("vllm"):
        import torch

        engine = "vllm" if torch.cuda.is_available() else engine
    if engine == "vllm":
        from sweet_rl.models.vllm_local import VLLMModel

        load_config(path)
        return VLLMModel(path, **engine_settings)
    from sweet_rl.models.transformers_local import TransformersModel

    if settings.engine_settings:
        raise UserError(f"{name}: engine_settings are those of vLLM, and this model runs in transformers.")
    return TransformersModel.from_pretrained(path, **engine_settings)


def _server_chat(name: str, tokenizer: str | None) -> ChatFormat | None:
    """Return the chat format for a model on a server, or None if the server applies its own."""
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
            "no tokenizer for %s, so the server applies its chat template and token ids are not kept: %s", name, error
        )
        return None
