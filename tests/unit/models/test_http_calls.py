"""What the refusals of servers mean."""

import email.utils
import json
import time

import pytest

from sweet_rl.models.http_calls import api_error, retry_after


@pytest.mark.parametrize(
    "status, message, code, kind, retryable",
    [
        (401, "key", None, "auth", False),
        (404, "no such model", None, "auth", False),
        (429, "slow down", None, "overloaded", True),
        (429, "pay first", "insufficient_quota", "auth", False),
        (503, "starting", None, "overloaded", True),
        (408, "late", None, "server", True),
        (500, "broken", None, "server", True),
        (302, "elsewhere", None, "server", True),
        (413, "big", None, "context", False),
        (400, "This model's maximum context length is 7 tokens.", None, "context", False),
        (400, "no", "content_filter", "filtered", False),
        (400, "no", None, "refused", False),
    ],
)
def test_a_refusal_has_a_kind_and_may_be_worth_another_try(status, message, code, kind, retryable):
    body = json.dumps({"error": {"message": message, "code": code, "param": "seed"}}).encode()
    error = api_error(status, {"retry-after": "2"}, body)
    assert (error.kind, error.retryable, error.status, error.param) == (kind, retryable, status, "seed")
    assert error.retry_after == (2.0 if retryable else None)
    assert message in str(error)


def test_a_refusal_in_another_form_keeps_its_text():
    assert "the moon is full" in str(api_error(422, {}, b'{"detail": "the moon is full"}'))
    assert "bad gateway" in str(api_error(502, {}, b"<html>bad gateway</html>"))
    assert "no message" in str(api_error(500, {}, b""))


def test_a_wait_is_given_in_milliseconds_seconds_or_as_a_date():
    assert retry_after({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
    assert retry_after({"retry-after": "9"}) == 9.0
    assert retry_after({"retry-after": "-9"}) == 0.0
    later = email.utils.formatdate(time.time() + 3600, usegmt=True)
    assert 3000 < retry_after({"retry-after": later}) <= 3600
    for value in ("soon", "nan", "inf"):
        assert retry_after({"retry-after": value}) is None
    assert retry_after({}) is None
