"""Several real servers of one model: servers that die and come back, pauses that they ask for, files of servers."""

import asyncio
import time

import pytest

from sweet_rl.errors import UserError
from sweet_rl.models.base import ModelError, Sampling
from sweet_rl.models.openai_server import OpenAIServer
from tests.integration.scripts.test_chaos import free_port
from tests.support.api_server import MODEL, ApiServer, Reply, chat_reply, refusal

ASKED = [{"role": "user", "content": "how many?"}]
QUICK = {"attempts": 4, "overloaded_attempts": 6, "longest_wait": 0.05}


def test_a_server_that_does_nothing_but_refuse_for_overload_does_not_draw_all_calls_to_itself():
    with ApiServer(lambda _: refusal(503, "full")) as full, ApiServer(lambda _: chat_reply("x")) as good:
        model = OpenAIServer(MODEL, [full.url, good.url], **QUICK, concurrency=4)
        assert asyncio.run(asked(model, 120)) == ["x"] * 120
        assert len(full.requests) < 60


def asked(server: OpenAIServer, count: int):
    async def work():
        try:
            replies = await asyncio.gather(*(server.complete(ASKED, Sampling()) for _ in range(count)))
            return [one.text for (one,) in replies]
        finally:
            await server.close()

    return work()


def test_a_real_server_that_is_dead_costs_no_call_and_one_that_starts_later_is_used():
    port = free_port()
    dead = f"http://127.0.0.1:{port}/v1"

    async def work(url, late):
        model = OpenAIServer(MODEL, [dead, url], **QUICK, timeout=5)
        model.endpoints._first_pause = 0.02
        await model.check()
        replies = await asyncio.gather(*(model.complete(ASKED, Sampling()) for _ in range(20)))
        with late:
            until = time.monotonic() + 60
            while not late.requests and time.monotonic() < until:
                await asyncio.gather(*(model.complete(ASKED, Sampling()) for _ in range(4)))
                await asyncio.sleep(0.02)
        await model.close()
        return replies

    late = ApiServer(lambda _: chat_reply("late"), port)
    with ApiServer(lambda _: chat_reply("here")) as server:
        replies = asyncio.run(work(server.url, late))
    assert [reply.text for (reply,) in replies] == ["here"] * 20 and late.requests


def test_a_server_that_answers_errors_only_is_avoided_and_no_call_is_lost():
    with ApiServer(lambda _: refusal(500, "broken")) as bad, ApiServer(lambda _: chat_reply("x")) as good:
        model = OpenAIServer(MODEL, [bad.url, good.url], **QUICK, concurrency=4)
        assert asyncio.run(asked(model, 40)) == ["x"] * 40
        assert len(bad.requests) < 25


def test_a_key_refused_for_a_moment_is_no_end_but_one_never_taken_is():
    def answer(body, seen=[]):  # noqa: B006
        seen.append(body)
        return refusal(401, "who are you?") if len(seen) == 2 else chat_reply("x")

    with ApiServer(answer) as server:
        model = OpenAIServer(MODEL, [server.url], **QUICK, concurrency=1)
        assert asyncio.run(asked(model, 3)) == ["x"] * 3
    with ApiServer(lambda _: refusal(401, "who are you?")) as server:
        with pytest.raises(ModelError) as caught:
            asyncio.run(asked(OpenAIServer(MODEL, [server.url], **QUICK), 1))
        assert caught.value.kind == "auth" and len(server.requests) == 1


def test_a_wait_that_is_longer_than_our_patience_ends_the_run_with_a_message():
    with ApiServer(lambda _: refusal(429, "come back tomorrow", retry_after="86400")) as server:
        with pytest.raises(UserError, match="86400 s .*continues"):
            asyncio.run(asked(OpenAIServer(MODEL, [server.url], **QUICK, patience=10), 1))


def test_a_file_of_servers_is_read_again_while_calls_go_on(tmp_path):
    hosts = tmp_path / "hosts.txt"

    async def work(one, two):
        hosts.write_text(f"{one.url}\n")
        model = OpenAIServer(MODEL, [f"@{hosts}"], **QUICK)
        model.endpoints._poll_hosts = 0.02

        async def becomes(*servers):
            while [endpoint.url for endpoint in model.endpoints.all] != [server.url for server in servers]:
                await asyncio.sleep(0.01)

        await model.complete(ASKED, Sampling())
        hosts.write_text(f"{one.url}\n{two.url}\n")
        await becomes(one, two)
        hosts.write_text(f"{two.url}\n")
        await becomes(two)
        before = len(one.requests)
        await asyncio.gather(*(model.complete(ASKED, Sampling()) for _ in range(10)))
        assert len(one.requests) == before and len(two.requests) == 10
        assert set(model.summary()["servers"]) == {one.url, two.url}
        await model.close()

    with ApiServer(lambda _: chat_reply("x")) as one, ApiServer(lambda _: chat_reply("x")) as two:
        asyncio.run(work(one, two))


def test_a_stalled_server_is_a_timeout_and_the_other_one_takes_over():
    with ApiServer(lambda _: Reply({}, wait=5.0)) as slow, ApiServer(lambda _: chat_reply("x")) as good:
        model = OpenAIServer(MODEL, [slow.url, good.url], **QUICK, timeout=1.5)
        assert asyncio.run(asked(model, 12)) == ["x"] * 12
        assert model.summary()["servers"][slow.url]["failed"]["timeout"] >= 3
