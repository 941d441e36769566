"""The choice among several servers of one model, without any server."""

import asyncio
import time

import pytest

from sweet_rl.errors import UserError
from sweet_rl.models.base import ModelError
from sweet_rl.models.endpoints import Endpoints, latency_summary
from sweet_rl.models.hosts import Hosts

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
        await asyncio.sleep(0)  # all three are waiting now
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


def test_a_server_is_suspended_after_failures_in_a_row_and_comes_back_when_it_answers():
    async def work():
        alive, probed_twice, answered, probed = False, asyncio.Event(), asyncio.Event(), []

        async def probe(url):
            probed.append(url)
            if len(probed) >= 2:
                probed_twice.set()
            if not alive:
                raise DOWN
            answered.set()

        pool = endpoints(probe=probe)
        a, b = pool.all
        for error in (None, ModelError("server", "500"), ModelError("timeout", "slow"), None):
            a.under_way += 1
            pool.give_back(a, 0.1, error)
        assert not a.suspended  # a success in between: not in a row
        for _ in range(3):
            assert not a.suspended
            a.under_way += 1
            pool.give_back(a, 0.1, ModelError("server", "500"))
        assert a.suspended and (await pool.take()) is b and (await pool.take()) is b
        await probed_twice.wait()
        assert a.suspended
        alive = True
        await answered.wait()
        await asyncio.sleep(0)
        assert not a.suspended and (await pool.take()) is a
        pool.give_back(a, 0.1, ModelError("server", "500"))
        assert a.suspended  # after its return, one failure is enough
        await pool.close()

    played(work)


def test_a_cancelled_call_frees_its_place_and_counts_neither_as_success_nor_as_failure():
    async def work():
        pool = endpoints(["a"], concurrency=1, failures=1)
        held = await pool.take()
        waiting = asyncio.ensure_future(pool.take())
        await asyncio.sleep(0)
        pool.release(held)
        assert await waiting is held and held.under_way == 1
        pool.release(held)
        assert held.under_way == 0 and not held.suspended and not held.works
        assert held.failures_in_row == 0 and pool.summary() == {}

    played(work)


def test_a_refused_connection_suspends_a_server_and_a_refused_dialogue_is_not_its_failure():
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
        assert time.monotonic() - start >= 0.3
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


def test_a_percentile_is_the_time_within_which_so_many_calls_were_answered():
    assert latency_summary([]) == {}
    assert latency_summary([3.0]) == {"p50": 3.0, "p90": 3.0, "p99": 3.0, "longest": 3.0}
    seconds = [number / 1000 for number in range(1000, 0, -1)]
    assert latency_summary(seconds) == {"p50": 0.5, "p90": 0.9, "p99": 0.99, "longest": 1.0}
