"""A real server with the OpenAI chat API around a model of this process; a function answers as the human."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from sweet_rl.models.base import ChatModel, Completion, Sampling
from tests.support.api_server import ApiServer, Reply, chat_reply


class ServedModel:
    """Serves a model, as a context manager. It honours seeds: the same requests get the same replies.

    It also has vLLM's `/inference/v1/generate`: token ids in, token ids with log-probs out.

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
        if "token_ids" in body:
            sampling = _sampling(body["sampling_params"])
            return _generated(self._wait(self._model.complete(body["token_ids"], sampling)))
        messages = body["messages"]
        if self._human is not None and "<hidden_code>" in messages[-1]["content"]:
            return chat_reply(self._human(messages[-1]["content"]))
        completion = self._wait(self._model.complete(messages, _sampling(body)))
        return chat_reply(completion.text, reason=completion.finish_reason)

    def _wait(self, call) -> Completion:
        (completion,) = asyncio.run_coroutine_threadsafe(call, self._loop).result(timeout=60)
        return completion

    def __enter__(self) -> ServedModel:
        self._thread.start()
        self.api.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.api.__exit__()
        asyncio.run_coroutine_threadsafe(self._model.close(), self._loop).result(timeout=60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


def _sampling(body: dict) -> Sampling:
    names = ("temperature", "max_tokens", "seed")
    return Sampling(**{name: body[name] for name in names if body.get(name) is not None})


def _generated(completion: Completion) -> Reply:
    content = [
        {"token": f"token_id:{token}", "logprob": logprob}
        for token, logprob in zip(completion.token_ids, completion.logprobs, strict=True)
    ]
    choice = {
        "index": 0, "token_ids": completion.token_ids, "logprobs": {"content": content},
        "finish_reason": completion.finish_reason,
    }  # fmt: skip
    return Reply({"request_id": "1", "choices": [choice]})
