"""Settings that every script that calls a language model shares: which model, and how it is called."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, Literal

from sweet_rl.models.hostnames import api_key, base_url, split_hostnames
from sweet_rl.runs.cli import UNRECORDED
from sweet_rl.runs.errors import UserError


@dataclass(frozen=True)
class ModelSettings:
    """Where one model runs and how it is asked. The model's name is not here: each script names it itself.

    Attributes:
        engine: `auto` is a server if a hostname is given, else vLLM if it is installed and there is a GPU, else
            transformers in this process. `openai` without a hostname is OpenAI's own API.
        hostname: Server of the model: host, host:port or URL; several separated by commas. Without a hostname the
            model runs in this process.
        tokenizer: For a model on a server: folder or hub name of its tokenizer, which gives exact token ids. `auto`
            takes the model's own name if that is a folder or a hub name; `none` lets the server apply its chat
            template.
        request: For a model on a server: fields of the request body that override all others; null leaves a field
            out: '{"temperature": null, "reasoning_effort": "low"}'.
        api_key_variable: Environment variable that holds the key of the model's server. Default: OPENAI_API_KEY, which
            is sent to OpenAI's own API only.
        bf16: For a model in this process: load its weights in bfloat16, or with False in float32. Default: as in the
            checkpoint on a GPU, float32 on a CPU. bfloat16 is quick on CPUs with AMX, slow on others.
        engine_settings: For a model in this process: arguments of its engine. vLLM takes those of `vllm serve`:
            '{"max_model_len": 16384, "gpu_memory_utilization": 0.5}'; transformers takes device, max_rows,
            prefill_tokens and cache_bytes.
    """

    engine: Annotated[Literal["auto", "transformers", "vllm", "openai"], UNRECORDED] = "auto"
    hostname: Annotated[str | None, UNRECORDED] = None
    tokenizer: Annotated[str | None, UNRECORDED] = "auto"
    request: dict | None = None
    api_key_variable: Annotated[str | None, UNRECORDED] = None
    bf16: bool | None = None
    engine_settings: Annotated[dict | None, UNRECORDED] = None

    def __post_init__(self) -> None:
        if self.hostname or self.engine == "openai" or (self.api_key_variable or "") in os.environ:
            self.api_key()  # from now on it is in no text

    def urls(self) -> list[str]:
        """Return the base URLs of the servers; none without a hostname. Raises UserError if a name is no server."""
        return [base_url(name) for name in split_hostnames(self.hostname)]

    def api_key(self) -> str | None:
        """Return the key that the servers get. Raises UserError if there is none in the variable that was named."""
        return api_key(self.api_key_variable, self.urls())


@dataclass(frozen=True)
class CallSettings:
    """How calls are made, the same for all models of a run. No reply depends on these settings.

    Attributes:
        timeout: Seconds within which a server must have answered a request whole; then the request is made again.
        patience: Seconds without any server that answers after which the run stops; the same command continues it.
        endpoint_concurrency: Largest number of calls that one server has in progress.
        cache: Folder in which model calls are stored and looked up.
        max_calls: Largest number of replies that servers are asked for, without those in the cache; then the run stops,
            and the same command continues it.
    """

    timeout: float = 600.0
    patience: float = 600.0
    endpoint_concurrency: int = 256
    cache: str | None = None
    max_calls: int | None = None

    def __post_init__(self) -> None:
        if self.timeout <= 0:
            raise UserError(f"--timeout is {self.timeout}; it must be above 0 seconds.")
        if self.patience < 0:
            raise UserError(f"--patience is {self.patience}; it must be at least 0 seconds.")
        if self.endpoint_concurrency < 1:
            raise UserError(f"--endpoint_concurrency is {self.endpoint_concurrency}; it must be at least 1.")
        if self.max_calls is not None and self.max_calls < 1:
            raise UserError(f"--max_calls is {self.max_calls}; it must be at least 1.")
        if self.max_calls is not None and self.cache is None:
            raise UserError("--max_calls needs --cache FOLDER, which keeps the replies of dialogues in progress.")
