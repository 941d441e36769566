"""Settings that every script that calls a language model shares: which model, and how it is called."""

from __future__ import annotations

import os
import re
import urllib.parse
from dataclasses import dataclass
from typing import Annotated, Literal

from sweet_rl.runs.cli import UNRECORDED
from sweet_rl.runs.errors import UserError, register_key

HOSTED = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
NAME_OF_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")  # anything else may be a key, so it is not shown

Attention = Literal["flex", "plain"]


@dataclass(frozen=True, kw_only=True)
class AttentionSettings:
    """How attention is computed by whatever computes log-probs in this process.

    Attributes:
        attention: Way to compute attention; the results are equal up to rounding: flex (FlexAttention, compiled; it
            needs a GPU and a C compiler) or plain (each text by itself, its prompt too). Default: flex on a GPU, and no
            mask at all on a CPU.
    """

    attention: Annotated[Attention | None, UNRECORDED] = None


@dataclass(frozen=True)
class ModelSettings:
    """Where one model runs and how it is asked. The model's name is not here: each script names it itself.

    Attributes:
        engine: `auto` is a server if a hostname is given, else vLLM if it is installed and there is a GPU, else
            transformers in this process. `openai` without a hostname is OpenAI's own API.
        hostname: Server of the model: host, host:port or URL. Without a hostname the model runs in this process.
        tokenizer: For a model on a server: folder or hub name of its tokenizer, which gives exact token ids. `auto`
            takes the model's own name if that is a folder or a hub name; `none` lets the server apply its chat
            template.
        request: For a model on a server: fields of the request body that override all others; null leaves a field
            out: '{"temperature": null, "reasoning_effort": "low"}'.
        api_key_variable: Environment variable that holds the key of the model's server. Default: OPENAI_API_KEY, which
            is sent to OpenAI's own API only.
        bf16: For a model in this process: load its weights in bfloat16, or with False in float32. Default: as in the
            checkpoint on a GPU, float32 on a CPU. bfloat16 is quick on CPUs with AMX, slow on others.
        engine_settings: For vLLM in this process: arguments of `vllm serve`:
            '{"max_model_len": 16384, "gpu_memory_utilization": 0.5}'.
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
            self.server()  # registers the key, so that it is masked

    def server(self) -> tuple[str | None, str | None]:
        """Return the base URL of the server, None without a hostname, and the key that it gets."""
        return server_and_key(self.hostname, self.api_key_variable)


@dataclass(frozen=True)
class CallSettings:
    """How calls are made, the same for all models of a run. No reply depends on these settings.

    Attributes:
        timeout: Seconds that a server has to answer a request, with the client's retries. After a time-out the request
            is made again, at most twice.
        patience: Seconds without an answered call (the server is away, or limits the rate) after which the run
            stops. The same command continues it.
        endpoint_concurrency: Largest number of calls that the server has in progress.
        cache: Folder in which model calls are stored and looked up.
    """

    timeout: float = 600.0
    patience: float = 600.0
    endpoint_concurrency: int = 256
    cache: str | None = None

    def __post_init__(self) -> None:
        if self.timeout <= 0:
            raise UserError(f"--timeout is {self.timeout}; it must be above 0 seconds.")
        if self.patience < 0:
            raise UserError(f"--patience is {self.patience}; it must be at least 0 seconds.")
        if self.endpoint_concurrency < 1:
            raise UserError(f"--endpoint_concurrency is {self.endpoint_concurrency}; it must be at least 1.")


def base_url(hostname: str) -> str:
    """Return `http://host:8000/v1` for a host or a host with a port; a full URL is returned unchanged.

    Raises:
        UserError: It is none of these.
    """
    name = hostname.strip().rstrip("/")
    if any(character in name for character in "@?#\\"):
        raise UserError(
            "a hostname has no user, password or query (none of @ ? # \\): put a key into an environment variable, and "
            "name that with --api_key_variable. (Azure: https://NAME.openai.azure.com/openai/v1 needs no api-version.)"
        )
    if "," in name:
        raise UserError(
            f"{hostname!r} is not one server. Several have one address behind a router or with `vllm serve "
            "--data-parallel-size N`; or each gets a part of the work: --shard 1/2 --hostname ONE, --shard 2/2 "
            "--hostname OTHER."
        )
    url = name if "://" in name else f"http://{name}"
    try:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or any(map(str.isspace, name)):
            raise ValueError("no host")
        if "://" not in name and parts.path:
            raise ValueError("a path needs http:// or https:// before the host")
        has_port = parts.port is not None  # raises ValueError for a port that is none
    except ValueError as error:
        raise UserError(f"{hostname!r} is no server ({error}); give host, host:port or a full URL.") from error
    if "://" in name:
        return name
    return f"{url}/v1" if has_port else f"{url}:8000/v1"


def server_and_key(hostname: str | None, variable: str | None) -> tuple[str | None, str | None]:
    """Return the base URL of a server (None: OpenAI's own API), and its key.

    Without a variable only OpenAI's own API gets a key, that in OPENAI_API_KEY.

    Raises:
        UserError: The name is no server, the variable is not set, or its value cannot be sent. It is not shown.
    """
    url = base_url(hostname) if hostname else None
    if variable is None and url is not None and not _is_openai(url):
        return url, None
    key = os.environ.get(variable or KEY_VARIABLE, "").strip()
    if variable is not None and not key:
        name = f" {variable}" if NAME_OF_VARIABLE.fullmatch(variable) else ""
        raise UserError(f"--api_key_variable (or the like) names an environment variable{name} that is not set.")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise UserError("the API key has a space, a line break or a character beyond ASCII: no request can have it.")
    register_key(key)
    return url, key or None


def _is_openai(url: str) -> bool:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme == "https" and parts.netloc.lower() in ("api.openai.com", "api.openai.com:443")
