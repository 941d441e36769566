"""vLLM in this process as a ChatModel. The engine is made at the first call, in the event loop that uses it."""

from __future__ import annotations

import itertools
from typing import Any

from sweet_rl.models.base import TOO_LONG, Completion, ModelError, Sampling
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import gpu_memory, gpus_for, parameter_count
from sweet_rl.runs.errors import UserError, first_line
from sweet_rl.runs.records import Message, Part

MOST_OF_A_GPU = 0.9  # of its memory, where nothing else is
BESIDE_NOTHING = 1e9  # bytes of a GPU that are left free
BESIDE_A_MODEL = 6e9  # the same where this process has loaded another model, a critic, which needs it to compute


def parallel_sizes(path: str) -> dict[str, int]:
    """How vLLM uses all visible GPUs: as many engines as they hold, each on as few GPUs as hold its weights.

    Returns:
        The fields of AsyncEngineArgs; none with fewer than two GPUs.
    """
    memory = gpu_memory()
    if len(memory) < 2:
        return {}
    each = gpus_for(2 * parameter_count(path), memory)
    return {"tensor_parallel_size": each, "data_parallel_size": len(memory) // each}


def memory_share() -> dict[str, float]:
    """How much of the GPUs' memory vLLM takes: what is free of the fullest one, less the room of other work there.

    Returns:
        gpu_memory_utilization, a share of a GPU's memory; nothing without a GPU.

    Raises:
        UserError: Next to nothing is free.
    """
    import torch

    shares = []
    for number, (free, total) in enumerate(zip(gpu_memory(free=True), gpu_memory(), strict=True)):
        room = BESIDE_A_MODEL if torch.cuda.memory_allocated(number) else BESIDE_NOTHING
        if free < 2 * room:
            raise UserError(
                f"vLLM: {free / 1e9:.1f} of the {total / 1e9:.1f} GB of GPU {number} are free. End what else runs "
                "there (nvidia-smi), or name other GPUs in CUDA_VISIBLE_DEVICES."
            )
        shares.append((free - room) / total)
    return {"gpu_memory_utilization": min(MOST_OF_A_GPU, *shares)} if shares else {}


class VLLMModel:
    """A checkpoint in vLLM's asynchronous engine, on all visible GPUs (`parallel_sizes`).

    The engine is started as a server is, with as many sequences at a time, for the longest texts that fit beside the
    weights, in the memory that is free at its start.

    Args:
        path: Checkpoint folder or hub name.
        engine_settings: Fields of vLLM's AsyncEngineArgs (tensor_parallel_size, max_model_len, ...), which replace
            these.

    Raises:
        UserError: vLLM is not installed.
    """

    def __init__(self, path: str, **engine_settings: Any) -> None:
        try:
            import vllm  # noqa: F401
        except ImportError as error:
            raise UserError(
                "vLLM is not installed (`pip install vllm`). Use the engine transformers, or a server with a hostname."
            ) from error
        self.path = path
        self.chat = ChatFormat.from_pretrained(path)
        self.engine_settings = engine_settings
        self._engine: Any = None
        self._numbers = itertools.count()

    async def check(self) -> None:
        self._start()

    def _start(self) -> Any:
        if self._engine is None:
            from vllm.engine.arg_utils import AsyncEngineArgs
            from vllm.usage.usage_lib import UsageContext
            from vllm.v1.engine.async_llm import AsyncLLM

            settings: dict[str, Any] = {"model": self.path, "logprobs_mode": "processed_logprobs", "max_model_len": -1}
            settings |= parallel_sizes(self.path)
            if not {"gpu_memory_utilization", "kv_cache_memory_bytes"} & self.engine_settings.keys():
                settings |= memory_share()
            settings |= self.engine_settings
            try:
                # In its default context AsyncLLM runs 128 sequences of 2,048 tokens in all, whatever the GPU.
                self._engine = AsyncLLM.from_engine_args(
                    AsyncEngineArgs(**settings), usage_context=UsageContext.OPENAI_API_SERVER
                )
            except (TypeError, ValueError, RuntimeError) as error:
                raise UserError(
                    f"vLLM does not start with {self.path}: {first_line(error)} Its settings can be changed by "
                    """engine_settings: '{"max_model_len": 16384, "gpu_memory_utilization": 0.5}'."""
                ) from error
        return self._engine

    async def complete(self, messages: list[Message], sampling: Sampling) -> list[Completion]:
        return await self.complete_parts(self.chat.prompt(messages), sampling, self.chat.fingerprint)

    async def complete_parts(
        self, parts: list[Part], sampling: Sampling, tokenizer: str | None = None
    ) -> list[Completion]:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        ids, _ = self.chat.encode(parts, tokenizer)
        settings = SamplingParams(
            n=sampling.n,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=sampling.max_tokens,
            seed=sampling.seed % 2**31,
            stop_token_ids=list(self.chat.eos_ids),
            logprobs=0,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        final = None
        try:
            async for output in self._start().generate(
                {"prompt_token_ids": ids}, settings, f"sweet-{next(self._numbers)}"
            ):
                final = output
        except Exception as error:  # the classes of the engine's errors differ between versions
            kind = "context" if TOO_LONG.search(str(error)) else "engine"
            raise ModelError(kind, f"{type(error).__name__}: {error}") from error
        if final is None or len(final.outputs) != sampling.n:
            raise ModelError("malformed", f"vLLM gave no {sampling.n} replies.")
        return [self._completion(output, len(ids)) for output in sorted(final.outputs, key=lambda one: one.index)]

    def _completion(self, output: Any, prompt_tokens: int) -> Completion:
        ids = list(output.token_ids)
        logprobs = [step[token].logprob for step, token in zip(output.logprobs or [], ids, strict=False)]
        known = logprobs if len(logprobs) == len(ids) else None
        reason = "stop" if output.finish_reason == "stop" else "length"
        return Completion.of_ids(self.chat, ids, known, reason, prompt_tokens)

    async def close(self) -> None:
        if self._engine is not None:
            self._engine.shutdown()
            self._engine = None
