"""A server that speaks the OpenAI API: what is sent, what is understood, and what is left out."""

import asyncio
import socket

import pytest

from sweet_rl.models.base import ModelError, Sampling
from sweet_rl.models.openai_server import PLAIN_SAMPLING, OpenAIServer
from sweet_rl.models.settings import HOSTED
from sweet_rl.runs.errors import UserError
from tests.support.api_server import MODEL, ApiServer, Reply, chat_reply, in_turn, refusal, text_reply

QUICK = {"pause": 0.01, "retries": 0}
ASKED = [{"role": "user", "content": "how many?"}]
VLLM = Reply({"data": [{"id": MODEL, "owned_by": "vllm"}]})


def ask(answer, sampling=None, messages=ASKED, listing=None, calls=1, **settings):
    """Calls to a server with this behaviour: (completions or ModelError of the last one, the requests it saw)."""

    async def work(url):
        model = OpenAIServer(MODEL, url, **QUICK, **settings)
        try:
            for _ in range(calls):
                replies = await model.complete(messages, sampling or Sampling())
            return replies
        except ModelError as error:
            return error
        finally:
            await model.close()

    with ApiServer(answer) as server:
        server.listing = listing
        return asyncio.run(work(server.url)), server.requests


def test_messages_go_to_the_chat_endpoint_with_all_settings_and_nothing_but_role_and_content():
    messages = [*ASKED, {"role": "assistant", "content": "x", "token_ids": [1], "output": "x"}, ASKED[0]]
    (reply,), requests = ask(in_turn(chat_reply("Three.")), Sampling(0.5, 33, seed=2**40 + 5), messages)
    assert (reply.text, reply.token_ids, reply.finish_reason) == ("Three.", None, "stop")
    assert (reply.prompt_tokens, reply.completion_tokens) == (7, 5)
    ((path, body),) = requests
    assert path == "/v1/chat/completions"
    assert body == {
        "model": MODEL, "messages": [{"role": m["role"], "content": m["content"]} for m in messages],
        "temperature": 0.5, "top_p": 1.0, "max_tokens": 33, "n": 1, "seed": 5,
    }  # fmt: skip


def test_the_fields_that_only_vllm_knows_go_to_vllm_only_and_a_setting_of_the_user_wins():
    def sent(listing=None, **settings):
        ((_, body),) = ask(in_turn(chat_reply("x")), listing=listing, **settings)[1]
        return {name: body[name] for name in PLAIN_SAMPLING if name in body}

    assert sent(VLLM) == PLAIN_SAMPLING and sent() == {}
    assert sent(VLLM, request={"top_k": 5, "min_p": None}) == {"top_k": 5, "repetition_penalty": 1.0}


def test_n_replies_come_in_order_with_their_share_of_the_tokens():
    replies, _ = ask(in_turn(chat_reply("a", "b", "c", reason="length")), Sampling(n=3))
    assert [reply.text for reply in replies] == ["a", "b", "c"]
    assert {reply.finish_reason for reply in replies} == {"length"}
    assert sum(reply.completion_tokens for reply in replies) == 15


def test_with_a_tokenizer_the_servers_prompt_is_the_ids_that_training_sees(tiny_chat):
    ids = [*tiny_chat.encode([{"text": "Three.", "train": False}])[0], tiny_chat.eos_ids[0]]
    logprobs = [-0.5] * len(ids)
    prompt, _ = tiny_chat.encode(tiny_chat.prompt(ASKED))
    for asked in (ASKED, prompt):
        (reply,), requests = ask(in_turn(text_reply("", ids, logprobs)), None, asked, VLLM, chat=tiny_chat)
        ((path, body),) = requests
        assert path == "/v1/completions"
        assert body["prompt"] == prompt and body["return_token_ids"] is True
        assert (reply.text, reply.token_ids, reply.logprobs) == ("Three.", ids, logprobs)
        assert reply.completion_tokens == len(ids)


def test_ids_without_the_token_that_ended_the_reply_and_numbers_that_are_no_log_probs_are_not_used(tiny_chat):
    ids, _ = tiny_chat.encode([{"text": "Three.", "train": False}])
    (reply,), _ = ask(in_turn(text_reply("Three.", ids, [-0.5] * len(ids))), chat=tiny_chat)
    assert (reply.text, reply.token_ids) == ("Three.", None)
    (cut,), _ = ask(in_turn(text_reply("x", ids, [-0.5] * len(ids), reason="length")), chat=tiny_chat)
    assert cut.token_ids == ids and cut.finish_reason == "length"
    for logprobs in ([float("nan")] * len(ids), [-0.5]):
        (reply,), _ = ask(in_turn(text_reply("x", ids, logprobs, reason="length")), chat=tiny_chat)
        assert reply.token_ids == ids and reply.logprobs is None


@pytest.mark.parametrize(("reason", "kind"), [
    ("stop", None), ("eos", None), ("eos_token", None), ("tool_calls", None), (None, None),
    ("content_filter", "filtered"), ("error", "server"), ("abort", "server"),
])  # fmt: skip
def test_a_reply_has_failed_for_three_reasons_and_is_whole_for_every_other_one(reason, kind):
    result, _ = ask(in_turn(chat_reply("Three.", reason=reason)))
    if kind is None:
        assert [(reply.text, reply.finish_reason) for reply in result] == [("Three.", "stop")]
    else:
        assert isinstance(result, ModelError) and result.kind == kind


@pytest.mark.parametrize(("refused", "words"), [
    ("temperature", "Unsupported parameter: 'temperature' is not supported with this model."),
    ("top_k", "Unrecognized request argument supplied: top_k"),
    ("return_token_ids", "Unexpected fields in the request: {'return_token_ids'}"),
])  # fmt: skip
def test_an_optional_field_that_a_refusal_names_is_left_out_from_then_on(refused, words, tiny_chat):
    def answer(body):
        return refusal(400, words) if refused in body else text_reply("Three.")

    (reply,), requests = ask(answer, listing=VLLM, calls=2, chat=tiny_chat)
    assert reply.text == "Three." and [refused in body for _, body in requests] == [True, False, False]


def test_a_field_that_a_refusal_names_in_a_field_of_its_own_is_left_out_and_the_limit_of_tokens_renamed():
    def answer(body):
        if "max_tokens" in body:
            hint = "Use 'max_completion_tokens' instead."
            return refusal(400, f"Unsupported parameter: 'max_tokens' is not supported. {hint}", "max_tokens")
        return refusal(400, "no", "seed") if "seed" in body else chat_reply("Three.")

    (reply,), requests = ask(answer)
    assert reply.text == "Three." and requests[-1][1]["max_completion_tokens"] == 1024 and len(requests) == 3


def test_a_word_of_the_prompt_and_a_field_of_the_user_are_left_out_of_no_request():
    error, requests = ask(lambda _: refusal(400, "the temperature of the prompt is too high"))
    assert error.kind == "refused" and len(requests) == 1
    error, requests = ask(lambda _: refusal(400, "unknown field 'seed'"), request={"seed": 3})
    assert error.kind == "refused" and len(requests) == 1


def test_a_server_that_gives_one_reply_a_call_is_called_for_each_with_its_own_seed():
    replies, requests = ask(lambda body: chat_reply(f"seed {body['seed']}"), Sampling(n=3, seed=5))
    assert [reply.text for reply in replies] == ["seed 5", "seed 6", "seed 7"]
    assert [body["n"] for _, body in requests] == [3, 1, 1]


async def check(model, hostname):
    server = OpenAIServer(model, hostname, **QUICK)
    try:
        await server.check()
    finally:
        await server.close()


def test_check_says_what_is_wrong_before_any_dialogue():
    with ApiServer(in_turn(chat_reply("x"))) as server:
        asyncio.run(check(MODEL, server.url))
        asyncio.run(check("alias", server.url))
        server.listing = VLLM
        with pytest.raises(UserError, match=f"'other'.*{MODEL}"):
            asyncio.run(check("other", server.url))
        server.listing = refusal(401, "who are you?")
        with pytest.raises(UserError, match="the key.*who are you.*--api_key_variable"):
            asyncio.run(check(MODEL, server.url))
        server.listing = refusal(403, "Missing scopes: api.model.read")
        asyncio.run(check(MODEL, server.url))
        assert not server.requests
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(UserError, match=rf"127.0.0.1:{port}.*cannot be reached.*Start one \(for example `vllm serve"):
        asyncio.run(check(MODEL, f"127.0.0.1:{port}"))


def test_a_model_that_only_reasoned_until_its_limit_has_said_nothing():
    text = "Could not finish the message because max_tokens or model output limit was reached. Please try again."
    (reply,), requests = ask(lambda _: refusal(400, text))
    assert (reply.text, reply.finish_reason, len(requests)) == ("", "length", 1)


def test_what_is_left_out_and_the_names_that_replies_have_for_the_model_are_in_the_summary():
    def answer(body):
        reply = chat_reply("a")
        reply.body["model"] = f"{MODEL}-2024-08-06"
        return refusal(400, "no", "seed") if "seed" in body else reply

    async def work(url):
        model = OpenAIServer(MODEL, url, **QUICK)
        await model.complete(ASKED, Sampling())
        await model.close()
        return model.summary()

    with ApiServer(answer) as server:
        summary = asyncio.run(work(server.url))
    assert summary["left_out"] == ["seed"] and summary["served_as"] == [f"{MODEL}-2024-08-06"]
    assert summary["servers"][server.url] == {"calls": 2, "failed": {"refused": 1}}


def test_the_hosted_api_is_not_called_without_a_key():
    with pytest.raises(UserError, match="key"):
        OpenAIServer("gpt")
    model = OpenAIServer("gpt", api_key="key")
    assert model.server.url == HOSTED
    asyncio.run(model.close())


def test_a_server_that_read_fewer_tokens_than_were_sent_ends_the_run(tiny_chat):
    cut = text_reply("Three.")
    cut.body["usage"]["prompt_tokens"] = 1
    with pytest.raises(UserError, match="usage.prompt_tokens.* read 1.*num_ctx"):
        ask(in_turn(cut), chat=tiny_chat)


def test_an_address_of_the_environment_is_refused_and_not_passed_over(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "https://gateway.example/v1")
    with pytest.raises(UserError, match="OPENAI_BASE_URL.*hostname"):
        OpenAIServer(MODEL, api_key="none")
