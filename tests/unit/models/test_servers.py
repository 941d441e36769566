"""What is known of servers without any server."""

import asyncio
from types import SimpleNamespace

import pytest

from sweet_rl.models import servers as module
from sweet_rl.models.base import ModelError
from sweet_rl.models.hostnames import base_url
from sweet_rl.models.openai_server import OpenAIServer
from sweet_rl.models.servers import Servers
from sweet_rl.runs.errors import UserError


def test_hostnames_become_urls():
    assert base_url("node1") == "http://node1:8000/v1"
    assert base_url("node1:9") == "http://node1:9/v1"
    assert base_url("https://api.example.org/v1/") == "https://api.example.org/v1"
    for name in (" ", "ftp://node1", "a b", "node1:port"):
        with pytest.raises(UserError, match="several separated by commas"):
            base_url(name)
    with pytest.raises(UserError, match="no user, password or query"):
        base_url("user:password@node1")


def test_the_hosted_api_is_not_called_without_a_key():
    with pytest.raises(UserError, match="key"):
        OpenAIServer("gpt")


def test_a_call_whose_first_request_took_longer_than_the_patience_may_still_wait(monkeypatch):
    seconds = iter([100.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    now = 0.0

    async def request(*_):
        nonlocal now
        if (spent := next(seconds, None)) is None:
            return "reply"
        now += spent
        raise ModelError("overloaded", "slow down")

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    servers = Servers(["node1"], patience=10.0, pause=0.0)
    monkeypatch.setattr(servers, "request", request)
    assert asyncio.run(servers.call("/completions", {}, dict)) == "reply"
