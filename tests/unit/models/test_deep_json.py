"""An answer whose JSON is nested too deeply to be read is malformed, as any other that is no JSON object."""

import asyncio

import pytest

from sweet_rl.models.base import ModelError
from sweet_rl.models.servers import Servers


@pytest.mark.parametrize("as_json", [True, False])
def test_json_that_is_nested_too_deeply_is_malformed(as_json):
    async def answer():
        if as_json:
            raise RecursionError("maximum recursion depth exceeded")  # the client reads it
        return '{"data": ' + "[" * 200_000

    servers = Servers(["127.0.0.1:9"])
    with pytest.raises(ModelError, match="is no JSON") as error:
        asyncio.run(servers._answer(servers.all[0], answer(), 1.0))
    assert error.value.kind == "malformed" and error.value.retryable
