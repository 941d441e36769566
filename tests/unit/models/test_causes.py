"""A failed call is reported with the limit or the answer that was its cause."""

import asyncio
import time

import aiohttp
import openai
import pytest

from sweet_rl.models.base import ModelError
from sweet_rl.models.failures import CONNECT_SECONDS, transport_error
from sweet_rl.models.replies import completions
from sweet_rl.models.servers import LIST_SECONDS, Servers
from sweet_rl.runs.errors import UserError


@pytest.mark.parametrize(
    ("cause", "limit", "named"),
    [
        (TimeoutError(), LIST_SECONDS, LIST_SECONDS),
        (aiohttp.ConnectionTimeoutError(), 600.0, CONNECT_SECONDS),
        (aiohttp.ConnectionTimeoutError(), 5.0, 5.0),
    ],
)
def test_a_time_out_names_the_limit_that_ended_the_call(cause, limit, named):
    error = openai.APITimeoutError(request=None)
    error.__cause__ = cause
    assert f"within {named:g} s" in str(transport_error(error, "http://a", limit))


@pytest.mark.parametrize(("content", "found"), [({"text": "x"}, "dict"), (7, "int"), ([7], "list")])
def test_a_reply_without_text_is_an_answer(content, found):
    answer = {"choices": [{"message": {"content": content}, "finish_reason": "tool_calls"}]}
    with pytest.raises(ModelError, match=f"{found}.*'tool_calls'") as error:
        completions(answer, 1, "chat")

    async def silent() -> None:
        servers = Servers(["http://127.0.0.1:1"], patience=10.0)
        servers._silent_since = time.monotonic() - 11
        try:
            servers._raise_if_silent(error.value, time.monotonic())
        finally:
            await servers.close()

    with pytest.raises(UserError) as raised:
        asyncio.run(silent())
    assert "no server has answered" not in str(raised.value)
