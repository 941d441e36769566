"""vLLM in this process as a ChatModel. The engine is made at the first call, in the event loop that uses it."""

from __future__ import annotations

import itertools
from typing import Any

import torch

from sweet_rl.models.base import TOO_LONG, Completion, ModelError, Prompt, Sampling, prompt_ids
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.errors import UserError, first_line


class VLLMModel:
    """A checkpoint in vLLM's asynchronous engine.

    The engine runs as many sequences at a time as a server of vLLM. Its context is the longest that fits beside the
    weights. Each visible GPU has a copy. `engine_settings`, fields of vLLM's AsyncEngineArgs, can change all of it.
    """

    def __init__(self, path: str, **engine_settings: Any) -> None:
        import vllm  # noqa: F401  # fails now if it is missing, not at the first call

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
            if not {"tensor_parallel_size", "data_parallel_size"} & self.engine_settings.keys():
                settings["data_parallel_size"] = max(1, torch.cuda.device_count())
            try:
                # In its default context AsyncLLM runs 128 sequences of 2,048 tokens in all, whatever the GPU.
                self._engine = AsyncLLM.from_engine_args(
                    AsyncEngineArgs(**settings | self.engine_settings), usage_context=UsageContext.OPENAI_API_SERVER
                )
            except (TypeError, ValueError, RuntimeError) as error:
                raise UserError(
                    f"vLLM does not start with {self.path}: {first_line(error)} Its settings can be changed by "
                    """engine_settings: '{"max_model_len": 16384, "gpu_memory_utilization": 0.5}'."""
                ) from error
        return self._engine

    async def complete(self, prompt: Prompt, sampling: Sampling) -> list[Completion]:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        ids = prompt_ids(self.chat, prompt)
        settings = SamplingParams(
            n=sampling.n,
            temperature=sampling.temperature,
            max_tokens=sampling.max_tokens,
            seed=sampling.seed % 2**31,
            stop_token_ids=list(self.chat.eos_ids),
            logprobs=0,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        request = self._start().generate({"prompt_token_ids": ids}, settings, f"sweet-{next(self._numbers)}")
        try:
            *_, final = [output async for output in request]
        except Exception as error:  # the classes of the engine's errors differ between versions
            kind = "context" if TOO_LONG.search(str(error)) else "engine"
            raise ModelError(kind, f"{type(error).__name__}: {error}") from error
        replies = []
        for output in sorted(final.outputs, key=lambda output: output.index):
            sampled = list(output.token_ids)
            logprobs = [step[token].logprob for step, token in zip(output.logprobs, sampled, strict=True)]
            reason = "stop" if output.finish_reason == "stop" else "length"
            replies.append(Completion.of_ids(self.chat, sampled, logprobs, reason, len(ids)))
        return replies

    async def close(self) -> None:
        if self._engine is not None:
            self._engine.shutdown()
            self._engine = None
