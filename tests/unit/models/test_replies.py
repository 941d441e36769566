"""What a reply says about its model and its server: silence is the model's, a broken generation the server's."""

import pytest

from sweet_rl.models.base import ModelError
from sweet_rl.models.replies import completions


def read(content, reason="stop", **more):
    message = more.pop("message", {"content": content})
    usage = more.pop("usage", {"prompt_tokens": 7, "completion_tokens": 5})
    (reply,) = completions({"choices": [{"message": message, "finish_reason": reason}], "usage": usage}, 1, "chat")
    return reply


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "function_call", "length", "MAX_TOKENS", "end_turn"])
def test_a_model_that_ends_without_a_text_has_said_nothing(reason):
    assert read(None, reason).text == read("", reason).text == read(None, reason, message={}).text == ""


def test_content_in_parts_is_joined_without_the_reasoning():
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "One."}]
    assert read([*parts, {"type": "text", "text": " Two."}]).text == "One. Two."


@pytest.mark.parametrize("reason", ["length", "max_tokens", "MAX_TOKENS", "FINISH_REASON_MAX_TOKENS", "model_length"])
def test_a_cut_reply_is_cut_in_every_make(reason):
    assert read("I", reason).finish_reason == "length"


@pytest.mark.parametrize(
    "reason", ["error", "abort", {"type": "abort"}, "insufficient_system_resource", "network_error"]
)
def test_a_generation_that_the_server_broke_off_is_its_fault_and_asked_for_again(reason):
    with pytest.raises(ModelError) as error:
        read("I WANT TO ANSWER: def f(", reason)
    assert (error.value.kind, error.value.retryable) == ("server", True)


@pytest.mark.parametrize("reason", ["content_filter", "SAFETY", "content_filter: PROHIBITED_CONTENT", "sensitive"])
def test_a_filter_is_a_filter_in_every_make(reason):
    with pytest.raises(ModelError) as error:
        read("", reason)
    assert error.value.kind == "filtered"


@pytest.mark.parametrize("message", [None, "text", {"content": None}, {"content": 7}])
def test_a_reply_that_neither_ends_nor_says_anything_is_malformed(message):
    with pytest.raises(ModelError) as error:
        read(None, None, message=message)
    assert (error.value.kind, error.value.retryable) == ("malformed", True)


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 0, "completion_tokens": 0}, {"completion_tokens": "5"}])
def test_tokens_that_were_not_counted_are_not_0(usage):
    reply = read("One.", usage=usage)
    assert (reply.prompt_tokens, reply.completion_tokens) == (None, None)


def test_a_reply_of_no_tokens_is_0_tokens():
    assert read("", usage={"prompt_tokens": 7, "completion_tokens": 0}).completion_tokens == 0
    assert read("One.", usage={"prompt_tokens": 10**4000, "completion_tokens": 2}).prompt_tokens is None


def test_a_reason_without_a_text_is_shown_as_it_was_written():
    with pytest.raises(ModelError, match="'Key-ABC'"):
        read(None, "Key-ABC")


def test_half_of_a_surrogate_pair_becomes_a_character_that_can_be_written():
    assert read("a \ud83d b \U0001f600").text == "a \ufffd b \U0001f600"


@pytest.mark.parametrize("value", [None, float("nan"), float("-inf"), "-0.5"])
def test_log_probs_that_are_no_numbers_are_no_reply(value):
    logprobs = {"token_logprobs": [-0.5, value]}
    with pytest.raises(ModelError, match="log-prob") as error:
        completions({"choices": [{"text": "ab", "logprobs": logprobs}]}, 1, "text")
    assert error.value.kind == "malformed"
    (reply,) = completions({"choices": [{"text": "ab", "logprobs": None}]}, 1, "text")
    assert reply.logprobs is None


def silent(reason, tokens, limit, count=1, **more):
    choices = [{"message": {"content": "One."}, **({} if reason == "missing" else {"finish_reason": reason})}] * count
    answer = {"choices": choices, "usage": {"prompt_tokens": 7, "completion_tokens": tokens}} | more
    return [reply.finish_reason for reply in completions(answer, count, "chat", max_tokens=limit)]


@pytest.mark.parametrize("reason", ["missing", None, "", "null", "OTHER", {"type": None}])
def test_a_whole_reply_without_a_reason_has_stopped_and_one_of_all_allowed_tokens_is_cut(reason):
    assert silent(reason, 15, 16) == silent(reason, 16, None) == ["stop"]
    assert silent(reason, 16, 16) == silent(reason, 17, 16) == ["length"]
    assert silent(reason, 16, 16, usage=None) == ["stop"]  # nothing was counted
    assert silent(reason, 32, 16, 2) == ["length", "length"] and silent(reason, 30, 16, 2) == ["stop", "stop"]


def test_a_reason_is_believed_whatever_was_counted():
    assert silent("stop", 16, 16) == ["stop"] and silent("length", 3, 16) == ["length"]


@pytest.mark.parametrize(
    ("end", "more", "whole"),
    [
        (True, {"finish_reason": "stop"}, True),
        (False, {"finish_reason": "stop"}, False),  # the server trims the token at which it stopped
        (False, {"finish_reason": "length"}, True),
        (False, {"finish_reason": "stop", "stop_reason": "###"}, True),  # a text at which the request had it stop
        (False, {"finish_reason": "stop", "matched_stop": "###"}, True),
        (False, {"finish_reason": "stop", "stop_reason": 7}, False),
    ],
)
def test_token_ids_without_the_token_that_ended_the_reply_are_not_used(end, more, whole, tiny_chat):
    ids = [*tiny_chat.tokenizer.encode("ok", add_special_tokens=False), *(tiny_chat.eos_ids[:1] if end else ())]
    (reply,) = completions({"choices": [{"text": "ok", "token_ids": ids, **more}]}, 1, "text", tiny_chat)
    assert (reply.text, reply.token_ids) == ("ok", ids if whole else None)


@pytest.mark.parametrize("count", [0, 4])
def test_no_choice_and_more_than_were_asked_for_are_malformed(count):
    choice = {"message": {"content": "x"}, "finish_reason": "stop"}
    with pytest.raises(ModelError, match="choices"):
        completions({"choices": [choice] * count}, 3, "chat")
