"""What the bodies of refusals mean, as servers of many makes write them (addresses: benchmarks/field.md)."""

import json
from types import SimpleNamespace

import pytest

from sweet_rl.models.base import TOO_LONG, ModelError
from sweet_rl.models.failures import error_in_answer, refusal, settled


def refused(status: int, body) -> ModelError:
    """The error for a response with this status and body, as the client of the API hands it over."""
    text = body if isinstance(body, str) else json.dumps(body)
    return refusal(SimpleNamespace(status_code=status, response=SimpleNamespace(text=text, headers={})))


def openai(message: str, code=None, param=None, **more) -> dict:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code, **more}}


CONTEXT = {
    "vLLM, old": {"object": "error", "message": "This model's maximum context length is 16384 tokens. However, you "
        "requested 19591 tokens (9591 in the messages, 10000 in the completion).", "type": "BadRequestError",
        "param": None, "code": 400},
    "vLLM, new": openai("Input length (11680) exceeds model's maximum context length (4096).", 400),
    "vLLM, negative": openai("max_tokens must be at least 1, got -7584. (parameter=max_tokens, value=-7584)", 400,
        "max_tokens"),
    "SGLang": {"object": "error", "message": "The input (61709 tokens) is longer than the model's context length "
        "(40960 tokens).", "type": "BadRequestError", "param": None, "code": 400},
    "TGI, prompt": {"error": "Input validation error: `inputs` must have less than 4096 tokens. Given: 4545",
        "error_type": "validation"},
    "TGI, both": {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8192. Given: 6204 "
        "`inputs` tokens and 2047 `max_new_tokens`", "error_type": "validation"},
    "llama.cpp, words": openai("the request exceeds the available context size, try increasing it"),
    "llama-cpp-python": openai("Requested tokens (2285) exceed context window of 2048"),
    "Groq": openai("Please reduce the length of the messages or completion.", "context_length_exceeded", "messages"),
    "Cerebras": {"message": "Please reduce the length of the messages or completion. Current length is 42328 while "
        "limit is 40000", "code": "wrong_api_format"},
    "Gemini": [{"error": {"code": 400, "message": "The input token count (1200293) exceeds the maximum number of "
        "tokens allowed (1048576).", "status": "INVALID_ARGUMENT"}}],
    "xAI": {"code": "Client specified an invalid argument", "error": "This model's maximum prompt length is 131072 but "
        "the request contains 136973 tokens."},
    "Anthropic": openai("prompt is too long: 202128 tokens > 200000 maximum"),
    "Anthropic, both": openai("input length and `max_tokens` exceed context limit: 143653 + 64000 > 200000, decrease "
        "input length or `max_tokens` and try again"),
    "LiteLLM": openai("litellm.ContextWindowExceededError: litellm.BadRequestError: This model's maximum context "
        "length is 8192 tokens.", "400"),
    "Ollama": openai("the input length exceeds the context length"),
    "DashScope": openai("Range of input length should be [1, 30720]", "invalid_parameter_error"),
    "Mistral": {"object": "error", "message": "Prompt contains 33000 tokens and 0 draft tokens, too large for model "
        "with 32768 maximum context length", "type": "invalid_request_prompt", "code": "3051"},
    "OpenAI, characters": openai("Invalid 'messages[0].content': string too long.", "string_above_max_length"),
}  # fmt: skip


@pytest.mark.parametrize("body", CONTEXT.values(), ids=CONTEXT)
def test_a_prompt_that_is_too_long_is_recognised_in_every_make(body):
    error = refused(422 if "error_type" in body else 400, body)
    assert (error.kind, error.retryable) == ("context", False)


def test_a_code_is_read_before_words_and_before_the_status():
    late = {"error": {"code": 500, "message": "no room", "type": "exceed_context_size_error", "n_ctx": 256}}
    assert refused(500, late).kind == "context"  # llama.cpp
    assert refused(400, openai("Unknown parameter: 'max_context_length'. The prompt is too long anyway.",
        "unknown_parameter")).kind == "refused"  # fmt: skip
    too_large = openai(
        "Request too large on tokens per minute (TPM): Limit 6000, Requested 14810", "rate_limit_exceeded"
    )
    assert (refused(413, too_large).kind, refused(429, too_large).kind) == ("refused", "overloaded")  # Groq
    assert refused(498, {"error": {"message": "Flex tier capacity exceeded"}}).kind == "overloaded"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (402, openai("Insufficient Balance", "invalid_request_error")),
        (402, openai("This request requires more credits, or fewer max_tokens.", 402)),
        (400, openai("Your credit balance is too low to access the Anthropic API.")),
        (400, openai("litellm.BadRequestError: Budget has been exceeded! Current cost: 14, Max budget: 10", "400")),
        (400, openai("Access denied, please make sure your account is in good standing.", "Arrearage")),
        (403, openai("Key limit exceeded (total limit). Manage it using https://openrouter.ai/settings/keys", 403)),
        (
            403,
            {"code": "no permission", "error": "Your team has either used all available credits or reached its limit"},
        ),
        (429, openai("You exceeded your current quota", "insufficient_quota")),
        (429, {"error": {"message": "Your account is suspended", "type": "exceeded_current_quota_error"}}),
        (429, {"error": {"message": "User over budget", "type": "budget_exceeded", "code": "429"}}),
        (400, [{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}}]),
        (400, {"code": "invalid", "error": "Incorrect API key provided: ab***yz."}),
        (401, openai("Missing scopes: model.request")),
    ],
)
def test_no_credit_and_a_wrong_key_end_the_whole_run(status, body):
    assert refused(status, body).kind == "auth" and refused(status, body).fatal


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (
            403,
            {
                "code": "no permission",
                "error": "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO",
            },
        ),
        (403, openai("Your input was flagged for violence", 403, metadata={"reasons": ["violence"]})),
        (
            400,
            openai("The response was filtered", "content_filter", innererror={"code": "ResponsibleAIPolicyViolation"}),
        ),
        (400, openai("Input data may contain inappropriate content.", "data_inspection_failed")),
        (403, openai("The request was blocked by moderation")),
        (400, openai("Content Exists Risk", "invalid_request_error")),
        (
            400,
            openai(
                "Invalid prompt: your prompt was flagged as potentially violating our usage policy.", "invalid_prompt"
            ),
        ),
    ],
)
def test_a_content_filter_is_about_one_dialogue(status, body):
    assert refused(status, body).kind == "filtered" and refused(status, body).fatal is None


def test_a_403_without_a_word_is_about_the_key_until_the_server_has_answered():
    error = refused(403, "<html>Sorry, you have been blocked</html>")
    assert settled(error, answered=False).kind == "auth"
    assert settled(error, answered=True).kind == "refused"
    assert settled(refused(401, "no"), answered=True).kind == "auth"


def test_words_of_the_dialogue_that_a_server_repeats_say_nothing():
    text = "Check a credit card: no credit is left, the prompt is too long, the content filter flagged it."
    fault = {"type": "string_type", "loc": ["body", "messages", 0, "content"], "msg": "Input should be a string"}
    for body in (
        {"detail": [fault | {"input": text}]},
        {"object": "Error", "message": {"detail": [fault | {"input": text}]}},
    ):
        error = refused(422, body)
        assert error.kind == "refused" and "body.messages.0.content: Input should be a string" in str(error)


@pytest.mark.parametrize("place", [5, None, {"a": 1}, "body"])
def test_a_list_of_faults_without_places_is_shown_as_it_is(place):
    assert "Input" in str(refused(400, {"detail": [{"loc": place, "msg": "Input"}]}))


@pytest.mark.parametrize(
    "text",
    [
        "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the "
        "`context_window` for this model",
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
        "stop sequence is too long",
        "the request took too long",
        'Unknown name "context_length": Cannot find field.',
    ],
)
def test_a_text_that_happens_to_contain_a_word_is_no_long_prompt(text):
    assert not TOO_LONG.search(text)
    assert refused(400, openai(text)).kind == "refused"


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        ({"error": {"message": "free-models-per-min", "code": 429}, "user_id": "u"}, "overloaded", "free-models"),
        ({"error": {"message": "Provider returned error", "code": 502, "metadata": {"raw": "upstream died"}}}, "server",
         "upstream died"),
        ({"error": {"message": "Insufficient credits", "code": "402"}}, "auth", "Insufficient"),
        ({"error": "out of memory"}, "server", "out of memory"),
        ({"object": "error", "message": "maximum context length is 9 tokens", "code": 40303}, "context", "9 tokens"),
        ({"choices": [{"error": {"code": 502, "message": "died"}, "message": {"content": "ha"}}]}, "server", "died"),
        ({"error": {"message": "blocked", "code": "content_filter"}, "choices": []}, "filtered", "blocked"),
    ],
)  # fmt: skip
def test_an_error_inside_a_success_is_read_as_if_its_code_were_the_status(answer, kind, said):
    error = error_in_answer(answer)
    assert error is not None and error.kind == kind and said in str(error)


def test_an_answer_without_an_error_is_none():
    choices = [{"message": {"content": "x"}, "error": None}]
    for answer in (
        {"choices": choices},
        {"choices": choices, "error": None},
        {"choices": choices, "message": "ok"},
        {},
    ):
        assert error_in_answer(answer) is None


def test_half_of_a_surrogate_pair_in_a_message_becomes_a_character_that_can_be_written():
    text = str(refused(500, '{"error": {"message": "bad \\ud83d"}}'))
    assert text.encode() and text.endswith("bad \ufffd")
