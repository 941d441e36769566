"""The retry policy, without a server."""

import asyncio

import pytest

from sweet_rl.models.base import ModelError
from sweet_rl.models.retries import RetryPolicy

QUICK = RetryPolicy(attempts=3, overloaded_attempts=5, first_wait=0.0, longest_wait=0.0)


def calls_until(error: ModelError) -> int:
    calls = []

    async def ask():
        calls.append(1)
        raise error

    with pytest.raises(ModelError) as raised:
        asyncio.run(QUICK.call(ask))
    assert raised.value is error
    return len(calls)


def test_tries_are_bounded_more_of_them_under_overload_and_one_if_there_is_no_use():
    assert calls_until(ModelError("server", "500", retryable=True)) == 3
    assert calls_until(ModelError("overloaded", "429", retryable=True)) == 5
    assert calls_until(ModelError("context", "too long")) == 1


def test_waits_grow_up_to_a_bound_and_to_what_the_server_asks():
    policy, error = RetryPolicy(first_wait=1.0, longest_wait=8.0), ModelError("server", "500", True)
    for attempt, bound in ((1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (9, 8.0)):
        assert bound / 2 <= policy.wait_before(attempt, error) <= bound
    assert policy.wait_before(1, ModelError("overloaded", "429", True, retry_after=99.0)) == 99.0
