"""Servers that speak the OpenAI API: what is sent, what is understood, and every way of failing."""

import asyncio
import json
import re
import socket

import pytest

from sweet_rl.models.base import ModelError, Sampling
from sweet_rl.models.openai_server import OpenAIServer
from sweet_rl.runs.errors import UserError
from tests.support.api_server import MODEL, ApiServer, Reply, chat_reply, in_turn, refusal, text_reply

QUICK = {"pause": 0.01}
ASKED = [{"role": "user", "content": "how many?"}]


def ask(answer, sampling=None, messages=ASKED, **settings):
    """One call to a server with this behaviour: (completions or ModelError, the requests it saw)."""

    async def work(url):
        model = OpenAIServer(MODEL, [url], **QUICK, **settings)
        try:
            return await model.complete(messages, sampling or Sampling())
        except ModelError as error:
            return error
        finally:
            await model.close()

    with ApiServer(answer) as server:
        return asyncio.run(work(server.url)), server.requests


def test_messages_go_to_the_chat_endpoint_with_all_settings_and_nothing_but_role_and_content():
    messages = [*ASKED, {"role": "assistant", "content": "x", "token_ids": [1], "output": "x"}, ASKED[0]]
    (reply,), requests = ask(in_turn(chat_reply("Three.")), Sampling(0.5, 0.9, 33, seed=2**40 + 5), messages)
    assert (reply.text, reply.token_ids, reply.finish_reason) == ("Three.", None, "stop")
    assert (reply.prompt_tokens, reply.completion_tokens) == (7, 5)
    ((path, body),) = requests
    assert path == "/v1/chat/completions"
    assert body == {
        "model": MODEL, "messages": [{"role": m["role"], "content": m["content"]} for m in messages],
        "temperature": 0.5, "top_p": 0.9, "max_tokens": 33, "n": 1, "seed": 5,
        "top_k": -1, "repetition_penalty": 1.0, "min_p": 0.0,
    }  # fmt: skip


def test_n_replies_come_in_order_with_their_share_of_the_tokens():
    replies, _ = ask(in_turn(chat_reply("a", "b", "c", reason="length")), Sampling(n=3))
    assert [reply.text for reply in replies] == ["a", "b", "c"]
    assert {reply.finish_reason for reply in replies} == {"length"}
    assert sum(reply.completion_tokens for reply in replies) == 15


def test_with_a_tokenizer_the_servers_prompt_is_the_ids_that_training_sees(tiny_chat):
    ids = [*tiny_chat.encode([{"text": "Three.", "train": False}])[0], tiny_chat.eos_ids[0]]
    logprobs = [-0.5] * len(ids)
    (reply,), requests = ask(in_turn(text_reply("Three.", ids, logprobs)), chat=tiny_chat)
    ((path, body),) = requests
    assert path == "/v1/completions"
    assert body["prompt"] == tiny_chat.encode(tiny_chat.prompt(ASKED))[0]
    assert body["return_token_ids"] is True
    assert (reply.text, reply.token_ids, reply.logprobs) == ("Three.", ids, logprobs)
    assert reply.completion_tokens == len(ids)


def test_a_server_that_says_no_ids_gives_text_alone(tiny_chat):
    (reply,), _ = ask(in_turn(text_reply("Three.")), chat=tiny_chat)
    assert (reply.text, reply.token_ids, reply.logprobs) == ("Three.", None, None)


def test_a_parameter_that_the_server_refuses_by_name_is_left_out():
    def answer(body):
        for name in ("temperature", "max_tokens"):
            if name in body:
                hint = " Use 'max_completion_tokens' instead." if name == "max_tokens" else ""
                return refusal(400, f"Unsupported parameter: '{name}' is not supported with this model.{hint}", name)
        return chat_reply("Three.")

    (reply,), requests = ask(answer)
    assert reply.text == "Three."
    assert "temperature" not in requests[-1][1] and requests[-1][1]["max_completion_tokens"] == 1024


def test_a_prompt_that_is_too_long_changes_no_parameter():
    def answer(body):
        return refusal(400, "'max_tokens' or 'max_completion_tokens' is too large, with a maximum context length of 8.")

    error, requests = ask(answer)
    assert error.kind == "context"
    assert len(requests) == 1


def test_a_server_that_refuses_max_tokens_without_a_word_of_the_other_name_gives_the_fields_that_work():
    def answer(body):
        return refusal(400, "Unknown parameter: max_tokens.") if "max_tokens" in body else chat_reply("Three.")

    error, _ = ask(answer)
    assert "--agent_request" in str(error)
    fields = json.loads(re.search(r"'(\{.*\})'", str(error))[1])
    (reply,), requests = ask(answer, request=fields)
    assert reply.text == "Three." and requests[-1][1]["max_completion_tokens"] == 1024


def test_a_refused_parameter_is_left_out_also_if_the_refusal_is_not_in_openais_form(tiny_chat):
    def answer(body):
        if "return_token_ids" in body:
            return Reply({"detail": "Unexpected fields in the request: {'return_token_ids'}"}, 422)
        return text_reply("Three.")

    (reply,), requests = ask(answer, chat=tiny_chat)
    assert reply.text == "Three." and "return_token_ids" not in requests[-1][1]


def test_a_server_that_takes_no_token_ids_gets_the_same_prompt_as_text_with_one_bos(tiny_chat):
    def answer(body):
        if isinstance(body["prompt"], list):
            return Reply({"detail": "prompt must be a string."}, 400)
        return text_reply("Three.")

    (reply,), requests = ask(answer, chat=tiny_chat)
    assert reply.text == "Three." and len(requests) == 2
    read_by_the_server = tiny_chat.tokenizer(requests[-1][1]["prompt"])["input_ids"]
    assert read_by_the_server == tiny_chat.encode(tiny_chat.prompt(ASKED))[0]


def test_a_server_that_gives_one_reply_a_call_is_called_for_each_with_its_own_seed():
    def answer(body):
        return chat_reply(f"seed {body['seed']}")

    replies, requests = ask(answer, Sampling(n=3, seed=5))
    assert [reply.text for reply in replies] == ["seed 5", "seed 6", "seed 7"]
    assert [body["n"] for _, body in requests] == [3, 1, 1]


def test_a_server_that_allows_one_choice_is_found_out_once():
    def answer(body):
        if body.get("n", 1) > 1:
            return refusal(400, "Only one completion choice is allowed")
        return chat_reply(f"seed {body['seed']}")

    async def work(url):
        model = OpenAIServer(MODEL, [url], **QUICK)
        try:
            return [await model.complete(ASKED, Sampling(n=2, seed=seed)) for seed in (5, 8)]
        finally:
            await model.close()

    with ApiServer(answer) as server:
        found = asyncio.run(work(server.url))
    assert [[reply.text for reply in replies] for replies in found] == [["seed 5", "seed 6"], ["seed 8", "seed 9"]]
    assert [body.get("n") for _, body in server.requests].count(2) == 1


def test_choices_that_a_server_left_out_are_asked_for_again_and_the_next_request_is_for_all():
    def answer(body):
        return chat_reply(*(f"{body['seed']}.{i}" for i in range(min(body["n"], 2))))

    replies, requests = ask(answer, Sampling(n=3, seed=5))
    assert [reply.text for reply in replies] == ["5.0", "5.1", "7.0"]
    assert [body["n"] for _, body in requests] == [3, 1]


def test_a_server_of_this_machine_is_asked_directly_and_one_elsewhere_through_the_proxy_that_the_error_names(
    monkeypatch,
):
    with socket.socket() as taken:  # bound and not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HTTP_PROXY", f"http://user:hidden@127.0.0.1:{taken.getsockname()[1]}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        (reply,), _ = ask(in_turn(chat_reply("x")))
        assert reply.text == "x"

        async def work():
            model = OpenAIServer(MODEL, ["http://192.0.2.1:8000/v1"], timeout=5, **QUICK)
            try:
                await model.check()
            finally:
                await model.close()

        with pytest.raises(UserError, match=r"through the proxy 127\.0\.0\.1.*NO_PROXY=192\.0\.2\.1") as error:
            asyncio.run(work())
    assert "hidden" not in str(error.value)


@pytest.mark.parametrize(
    "trouble",
    [
        refusal(503, "starting"),
        Reply(drop=True),
        Reply(b"<html>not json</html>"),
        Reply({"choices": []}),
        Reply(wait=1.0),
        Reply({"error": {"message": "Upstream crashed", "code": 502}}),
        chat_reply("Thr", reason="abort"),
    ],
    ids=["503", "drop", "html", "no choices", "stall", "error in 200", "abort"],
)
def test_passing_trouble_is_retried(trouble):
    result, requests = ask(in_turn(trouble, chat_reply("Three.")), timeout=0.3 if trouble.wait else 20)
    assert not isinstance(result, ModelError), result
    assert result[0].text == "Three." and len(requests) >= 2


@pytest.mark.parametrize(
    "trouble, kind, calls",
    [
        (refusal(500, "internal"), "server", 9),
        (Reply(drop=True), "connection", 9),
        (Reply(b"<html>"), "malformed", 3),
        (Reply({"choices": [{"index": 0, "message": None}]}), "malformed", 3),
        (Reply(wait=1.0), "timeout", 9),
        (refusal(400, "This model's maximum context length is 2048 tokens."), "context", 1),
        (chat_reply("", reason="content_filter"), "filtered", 1),
        (refusal(401, "wrong key"), "auth", 1),
    ],
)
def test_lasting_trouble_ends_as_a_typed_error_after_bounded_tries(trouble, kind, calls):
    error, requests = ask(in_turn(trouble), timeout=0.1 if trouble.wait else 20)
    assert isinstance(error, ModelError) and error.kind == kind
    assert len(requests) == calls


async def check(model, hostnames):
    server = OpenAIServer(model, hostnames)
    try:
        await server.check()
    finally:
        await server.close()


def test_check_says_what_is_wrong_before_any_dialogue():
    with ApiServer(in_turn(chat_reply("x"))) as server:
        asyncio.run(check(MODEL, [server.url]))
        asyncio.run(check("alias", [server.url]))
    with ApiServer(in_turn(refusal(404, "no such model"))) as server:
        with pytest.raises(UserError, match=f"'other'.*{MODEL}.*no such model"):
            asyncio.run(check("other", [server.url]))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(UserError, match=rf"127.0.0.1:{port}.*cannot be reached.*Start one \(for example `vllm serve"):
        asyncio.run(check(MODEL, [f"127.0.0.1:{port}"]))


@pytest.mark.parametrize(
    "listing",
    [
        Reply([{"id": "another", "object": "model"}]),
        refusal(403, "Missing scopes: api.model.read"),
        refusal(401, "not for you"),
        refusal(501, "not implemented"),
        Reply(b"<html></html>", headers={"content-type": "text/html"}),
        Reply({"data": None}),
    ],
    ids=["bare", "403", "401", "501", "page", "null"],
)
def test_a_list_of_models_without_the_model_is_no_reason_not_to_call_it(listing):
    with ApiServer(in_turn(chat_reply("x"))) as server:
        server.listing = listing
        asyncio.run(check(MODEL, [server.url]))
        assert len(server.requests) == 1


def test_a_bare_list_with_the_model_needs_no_call_and_a_refused_one_is_about_the_key():
    with ApiServer(in_turn(refusal(401, "who are you?"))) as server:
        server.listing = Reply([{"id": MODEL}])
        asyncio.run(check(MODEL, [server.url]))
        assert not server.requests
        server.listing = refusal(403, "forbidden")
        with pytest.raises(UserError, match="the key.*who are you.*--api_key_variable"):
            asyncio.run(check(MODEL, [server.url]))


def test_a_server_that_refuses_an_empty_message_of_the_history_gets_one_with_a_text():
    def answer(body):
        empty = any(not message["content"] for message in body["messages"])
        return refusal(400, "messages.1: all messages must have non-empty content") if empty else chat_reply("Three.")

    messages = [*ASKED, {"role": "assistant", "content": ""}, ASKED[0]]
    (reply,), requests = ask(answer, messages=messages)
    assert reply.text == "Three." and [len(body["messages"]) for _, body in requests] == [3, 3]
    assert requests[1][1]["messages"][::2] == messages[::2]


def test_a_model_that_only_reasoned_until_its_limit_has_said_nothing():
    text = "Could not finish the message because max_tokens or model output limit was reached. Please try again."
    (reply,), requests = ask(lambda _: refusal(400, text))
    assert (reply.text, reply.finish_reason, len(requests)) == ("", "length", 1)


def test_one_refusal_that_names_every_field_costs_the_other_calls_nothing():
    refused = []
    echo = "bad request: unknown 'temperature', 'top_p', 'seed', 'top_k', 'min_p', 'repetition_penalty', 'max_tokens'"

    async def work(url):
        model = OpenAIServer(MODEL, [url], **QUICK)
        with pytest.raises(ModelError):
            await model.complete(ASKED, Sampling(0.5))
        refused.append(True)
        await model.complete(ASKED, Sampling(0.5))
        await model.close()
        return model.summary()

    with ApiServer(lambda body: chat_reply("x") if refused else refusal(400, echo)) as server:
        summary = asyncio.run(work(server.url))
        assert server.requests[-1][1].keys() == server.requests[0][1].keys()
    assert "left_out" not in summary


def test_the_names_that_replies_have_for_the_model_are_in_the_summary():
    answers = [chat_reply("a") for _ in range(4)]
    for answer, name in zip(answers, (MODEL, f"{MODEL}-2024-08-06", None, "x" * 500), strict=True):
        answer.body["model"] = name

    async def work(url):
        model = OpenAIServer(MODEL, [url], **QUICK)
        before = model.summary()
        for _ in answers:
            await model.complete(ASKED, Sampling())
        await model.close()
        return before, model.summary()

    with ApiServer(in_turn(*answers)) as server:
        before, after = asyncio.run(work(server.url))
    assert "served_as" not in before and after["served_as"] == [MODEL, f"{MODEL}-2024-08-06", "x" * 200]
