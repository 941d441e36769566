"""The ChatModel: calls from any number of coroutines, answered by one worker thread that owns the model."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path

import torch

from sweet_rl.models.base import Completion, ModelError, Sampling
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.transformers_local.engine import GenerationEngine
from sweet_rl.models.transformers_local.requests import Generated, Request
from sweet_rl.models.weights import check_loadable, freeze, load_weights
from sweet_rl.runs.records import Message, Part


class TransformersModel:
    """Samples from a causal language model; made by `from_pretrained`, or from a model and its ChatFormat.

    The same prompt, sampling settings and seed give the same reply in any batch, for a larger model up to rounding
    (transformers_local/__init__.py). Its log-probs differ in their last bits.

    Args:
        model: A causal language model on its device. Its weights must not change: the keys of texts are kept.
        chat: Its chat format.
        engine_settings: Arguments of GenerationEngine: max_rows, prefill_tokens, cache_bytes.
    """

    def __init__(self, model, chat: ChatFormat, **engine_settings: int) -> None:  # noqa: ANN001
        self.chat = chat
        self.engine = GenerationEngine(model.eval(), set(chat.eos_ids), **engine_settings)
        self._wake = threading.Condition()
        self._closed = False
        self._worker: threading.Thread | None = None

    @classmethod
    def from_pretrained(
        cls, path: str | Path, device: str | None = None, dtype: str | None = None, **engine_settings: int
    ) -> TransformersModel:
        """Load a checkpoint.

        Args:
            path: Folder or hub name.
            device: Device of the weights. Default: cuda if there is a GPU, else cpu.
            dtype: Number format of the weights. Default: float32 on a CPU (bfloat16 is slower on most), else as in the
                checkpoint.
            engine_settings: Arguments of GenerationEngine.

        Raises:
            UserError: No language model can be loaded from there.
        """
        check_loadable(path)
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        chat = ChatFormat.from_pretrained(path)
        model = load_weights(path, dtype or ("float32" if device == "cpu" else "auto"))
        return cls(freeze(model, device), chat, **engine_settings)

    async def check(self) -> None:
        """Do nothing: the model is loaded."""

    async def complete(self, messages: list[Message], sampling: Sampling) -> list[Completion]:
        return await self.complete_parts(self.chat.prompt(messages), sampling, self.chat.fingerprint)

    async def complete_parts(
        self, parts: list[Part], sampling: Sampling, tokenizer: str | None = None
    ) -> list[Completion]:
        if self._closed:
            raise ModelError("engine", "this model has been closed.")
        ids, _ = self.chat.encode(parts, tokenizer)
        loop = asyncio.get_running_loop()
        future: asyncio.Future = loop.create_future()

        def deliver(result: list[Generated] | Exception) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_settle, future, result)

        self.engine.submit(Request(ids, sampling, deliver))
        self._start()
        return [
            Completion.of_ids(self.chat, one.token_ids, one.logprobs, one.finish_reason, len(ids))
            for one in await future
        ]

    def _start(self) -> None:
        with self._wake:
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name="transformers-model", daemon=True)
                self._worker.start()
            self._wake.notify()

    def _work(self) -> None:
        while True:
            with self._wake:
                while not self.engine.busy and not self._closed:
                    self._wake.wait()
            if self._closed:
                self.engine.fail_all(ModelError("engine", "this model has been closed."))
                return
            try:
                self.engine.step()
            except Exception as error:  # of the model (memory, device): raised in the waiting calls
                self.engine.fail_all(ModelError("engine", f"{type(error).__name__}: {error}"))

    async def close(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._worker is not None:
            await asyncio.to_thread(self._worker.join)


def _settle(future: asyncio.Future, result: list[Generated] | Exception) -> None:
    if future.cancelled():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
