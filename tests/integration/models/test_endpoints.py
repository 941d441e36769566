"""Several servers of one model: balance, servers that die and come back, pauses that they ask for, files of servers."""

import asyncio
import time

import pytest

from sweet_rl.errors import UserError
from sweet_rl.models.base import ModelError, Sampling
from sweet_rl.models.endpoints import Endpoints, Latencies
from sweet_rl.models.hosts import Hosts
from sweet_rl.models.openai_server import OpenAIServer
from sweet_rl.models.retries import RetryPolicy
from tests.integration.scripts.test_chaos import free_port
from tests.support.api_server import MODEL, ApiServer, Reply, chat_reply, refusal

ASKED = [{"role": "user", "content": "how many?"}]
QUICK = RetryPolicy(attempts=4, overloaded_attempts=6, first_wait=0.01, longest_wait=0.05)
DOWN = ModelError("connection", "nobody there", retryable=True, connection_refused=True)


def endpoints(names=("a", "b"), probe=None, **settings) -> Endpoints:
    async def silent(url: str) -> None:
        raise DOWN

    return Endpoints(Hosts(names), probe or silent, **{"first_pause": 0.02, "longest_pause": 0.05, **settings})


def played(work):
    """The result of `work(...)` in an event loop of its own."""
    return asyncio.run(work())


def test_calls_go_where_the_fewest_are_and_wait_in_order_when_all_places_are_taken():
    async def work():
        pool, got = endpoints(concurrency=2), []
        held = [await pool.take() for _ in range(4)]
        assert sorted(one.url for one in held) == ["http://a:8000/v1"] * 2 + ["http://b:8000/v1"] * 2

        async def wait(number):
            got.append((number, await pool.take()))

        waiting = [asyncio.ensure_future(wait(number)) for number in range(3)]
        await asyncio.sleep(0.01)
        for one in held[:3]:
            pool.give_back(one, 0.1)
            await asyncio.sleep(0)
        await asyncio.gather(*waiting)
        assert [number for number, _ in got] == [0, 1, 2]
        assert sum(one.under_way for one in pool.all) == 4

    played(work)


def test_a_call_that_is_given_up_while_it_waits_leaves_its_place_to_the_next():
    async def work():
        pool = endpoints(["a"], concurrency=1)
        held = await pool.take()
        first, second = (asyncio.ensure_future(pool.take()) for _ in range(2))
        await asyncio.sleep(0)
        pool.give_back(held, 0.1)
        first.cancel()  # in the very moment in which it was given its place
        assert await asyncio.wait_for(second, 1) is held
        assert held.under_way == 1

    played(work)


def test_a_server_is_left_out_after_failures_in_a_row_and_comes_back_when_it_answers():
    async def work():
        alive, probed = False, []

        async def probe(url):
            probed.append(url)
            if not alive:
                raise DOWN

        pool = endpoints(probe=probe)
        a, b = pool.all
        for error in (None, ModelError("server", "500"), ModelError("timeout", "slow"), None):
            a.under_way += 1
            pool.give_back(a, 0.1, error)
        assert not a.suspended  # a success in between: not in a row
        for _ in range(3):
            a.under_way += 1
            pool.give_back(a, 0.1, ModelError("server", "500"))
        assert a.suspended and (await pool.take()) is b and (await pool.take()) is b
        await asyncio.sleep(0.15)
        assert len(probed) >= 2 and a.suspended
        alive = True
        await asyncio.sleep(0.15)
        assert not a.suspended and (await pool.take()) is a
        a.under_way += 1
        pool.give_back(a, 0.1, ModelError("server", "500"))
        assert a.suspended  # on probation, one failure is enough
        await pool.close()

    played(work)


def test_nobody_at_the_address_is_enough_to_be_left_out_and_a_refused_dialogue_is_not_the_servers_failure():
    async def work():
        pool = endpoints()
        a, b = pool.all
        for _ in range(5):
            b.under_way += 1
            pool.give_back(b, 0.1, ModelError("context", "too long"))
        assert not b.suspended and b.works
        a.under_way += 1
        pool.give_back(a, 0.1, DOWN)
        assert a.suspended
        assert pool.summary()["http://a:8000/v1"]["failed"] == {"connection": 1}
        await pool.close()

    played(work)


def test_without_any_server_calls_wait_and_then_the_run_ends_with_a_message():
    async def work():
        pool = endpoints(patience=0.3)
        for one in pool.all:
            pool.suspend(one, "dead")
        start = time.monotonic()
        with pytest.raises(UserError, match="no server has answered for"):
            await pool.take()
        assert 0.25 < time.monotonic() - start < 5
        with pytest.raises(UserError, match="it continues"):
            await pool.take()
        await pool.close()

    played(work)


def test_a_server_that_asks_for_a_pause_gets_it_and_fewer_calls_at_once_afterwards():
    async def work():
        pool = endpoints(["a"], concurrency=8)
        (a,) = pool.all
        held = [await pool.take() for _ in range(8)]
        pool.give_back(held[0], 0.1, ModelError("overloaded", "429", True, retry_after=0.2))
        assert a.limit == 4
        start = time.monotonic()
        for one in held[1:]:
            pool.give_back(one, 0.1)
        await pool.take()
        assert time.monotonic() - start >= 0.19
        for _ in range(100):
            a.under_way += 1
            pool.give_back(a, 0.1)
        assert a.limit == 8

    played(work)


def test_a_server_that_does_nothing_but_refuse_for_overload_does_not_draw_all_calls_to_itself():
    with ApiServer(lambda _: refusal(503, "full")) as full, ApiServer(lambda _: chat_reply("x")) as good:
        model = OpenAIServer(MODEL, [full.url, good.url], retries=QUICK, concurrency=4)
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
        model = OpenAIServer(MODEL, [dead, url], retries=QUICK, timeout=5)
        model.endpoints._first_pause = 0.02
        await model.check()
        replies = await asyncio.gather(*(model.complete(ASKED, Sampling()) for _ in range(20)))
        with late:
            until = time.monotonic() + 20
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
        model = OpenAIServer(MODEL, [bad.url, good.url], retries=QUICK, concurrency=4)
        assert asyncio.run(asked(model, 40)) == ["x"] * 40
        assert len(bad.requests) < 25


def test_a_key_refused_for_a_moment_is_no_end_but_one_never_taken_is():
    def answer(body, seen=[]):  # noqa: B006
        seen.append(body)
        return refusal(401, "who are you?") if len(seen) == 2 else chat_reply("x")

    with ApiServer(answer) as server:
        model = OpenAIServer(MODEL, [server.url], retries=QUICK, concurrency=1)
        assert asyncio.run(asked(model, 3)) == ["x"] * 3
    with ApiServer(lambda _: refusal(401, "who are you?")) as server:
        with pytest.raises(ModelError) as caught:
            asyncio.run(asked(OpenAIServer(MODEL, [server.url], retries=QUICK), 1))
        assert caught.value.kind == "auth" and len(server.requests) == 1


def test_a_wait_that_is_longer_than_our_patience_ends_the_run_with_a_message():
    with ApiServer(lambda _: refusal(429, "come back tomorrow", retry_after="86400")) as server:
        with pytest.raises(UserError, match="86400 s .*continues"):
            asyncio.run(asked(OpenAIServer(MODEL, [server.url], retries=QUICK, patience=10), 1))


def test_a_file_of_servers_is_read_again_while_calls_go_on(tmp_path):
    hosts = tmp_path / "hosts.txt"

    async def work(one, two):
        hosts.write_text(f"# ours\n{one.url}  # the first\n\n")
        model = OpenAIServer(MODEL, [f"@{hosts}"], retries=QUICK)
        model.endpoints._poll_hosts = 0.02
        await model.complete(ASKED, Sampling())
        for text, servers in ((f"{one.url}\n{two.url}\n", 2), ("no server: %%\n", 2), ("", 2), (f"{two.url}\n", 1)):
            hosts.write_text(text)
            await asyncio.sleep(0.1)
            assert len(model.endpoints.all) == servers
        before = len(one.requests)
        await asyncio.gather(*(model.complete(ASKED, Sampling()) for _ in range(10)))
        assert len(one.requests) == before and len(two.requests) == 10
        hosts.unlink()
        await asyncio.sleep(0.1)
        assert len(model.endpoints.all) == 1
        assert set(model.summary()["servers"]) == {one.url, two.url}
        await model.close()

    with ApiServer(lambda _: chat_reply("x")) as one, ApiServer(lambda _: chat_reply("x")) as two:
        asyncio.run(work(one, two))


@pytest.mark.parametrize("text, said", [(None, "cannot be read"), ("# nobody\n", "names none"), ("a b\n", "no server")])
def test_a_file_that_names_no_servers_is_an_error_at_the_start(tmp_path, text, said):
    file = tmp_path / "hosts.txt"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UserError, match=said):
        Hosts([f"@{file}"])


def test_percentiles_are_right_to_five_percent_and_memory_does_not_grow():
    latencies = Latencies()
    assert latencies.summary() == {}
    for number in range(1, 10_001):
        latencies.add(number / 1000)
    for share in (0.5, 0.9, 0.99):
        assert latencies.percentile(share) == pytest.approx(share * 10, rel=0.05)
    assert latencies.summary()["longest"] == 10.0 and len(latencies._buckets) < 250


def test_a_stalled_server_is_a_timeout_and_the_other_one_takes_over():
    with ApiServer(lambda _: Reply({}, wait=1.0)) as slow, ApiServer(lambda _: chat_reply("x")) as good:
        model = OpenAIServer(MODEL, [slow.url, good.url], retries=QUICK, timeout=0.3)
        assert asyncio.run(asked(model, 12)) == ["x"] * 12
        assert model.summary()["servers"][slow.url]["failed"]["timeout"] >= 3
