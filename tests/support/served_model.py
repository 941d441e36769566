"""A real server with the OpenAI chat API around a model of this process; a function answers as the human."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from sweet_rl.models.base import ChatModel, Sampling
from tests.support.api_server import ApiServer, Reply, chat_reply


class ServedModel:
    """Serves a model as a context manager; it honours seeds, so that the same requests get the same replies.

    Args:
        model: the agent.
        human: the reply to a prompt of the simulated human, one that shows the hidden code; None: there is none.
    """

    def __init__(self, model: ChatModel, human: Callable[[str], str] | None = None) -> None:
        self._model, self._human = model, human
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.api = ApiServer(self._answer)

    @property
    def url(self) -> str:
        return self.api.url

    def _answer(self, body: dict) -> Reply:
        messages = body["messages"]
        if self._human is not None and "<hidden_code>" in messages[-1]["content"]:
            return chat_reply(self._human(messages[-1]["content"]))
        sampling = Sampling(body["temperature"], body["top_p"], body["max_tokens"], seed=body["seed"])
        calls = asyncio.run_coroutine_threadsafe(self._model.complete(messages, sampling), self._loop)
        (completion,) = calls.result(timeout=60)
        return chat_reply(completion.text, reason=completion.finish_reason)

    def __enter__(self) -> ServedModel:
        self._thread.start()
        self.api.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.api.__exit__()
        asyncio.run_coroutine_threadsafe(self._model.close(), self._loop).result(timeout=60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
