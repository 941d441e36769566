"""Which field is left out after a refusal, and which refusal changes nothing."""

import pytest

from sweet_rl.models.base import ModelError, Sampling
from sweet_rl.models.request_body import RequestBody

CHAT = {"messages": [{"role": "user", "content": "hello"}]}
HALF = Sampling(0.7)
TEXT = {"prompt": [1, 2], "logprobs": 0, "return_token_ids": True}


def changed(message: str, sampling=HALF, prompt=CHAT, kind="refused", param=None) -> set[str] | None:
    """The names of fields that another body lacks after this refusal, or has in their place; None if it is raised."""
    body = RequestBody("m", None)
    sent = body.build(prompt, sampling, "hello", body.form)
    form = body.adapted(ModelError(kind, message, param=param), sent, body.form)
    if form is None:
        return None
    other = body.build(prompt, sampling, "hello", form)
    return {name for name in sent.keys() | other.keys() if sent.get(name) != other.get(name)}


@pytest.mark.parametrize(
    ("message", "param", "left_out"),
    [
        ("Unsupported value: 'temperature' does not support 0.7 with this model. Only the default (1) value is "
         "supported.", "temperature", "temperature"),
        ("invalid temperature: only 1 is allowed for this model", None, "temperature"),
        ("Unsupported parameter: 'top_p' is not supported with this model.", "top_p", "top_p"),
        ("property 'top_k' is unsupported", None, "top_k"),
        ("body.min_p: Extra inputs are not permitted", None, "min_p"),
        ("Unknown name \"seed\": Cannot find field.", None, "seed"),
        ("Unsupported parameter(s): `repetition_penalty`", None, "repetition_penalty"),
        ("litellm.UnsupportedParamsError: gpt-5 models don't support temperature=0.7. Only temperature=1 is supported.",
         None, "temperature"),
        ("Unsupported parameter: temperature", None, "temperature"),
        ("`top_p` must be > 0.0 and < 1.0", None, "top_p"),
        ("'n' : number must be at most 1", None, "n"),
    ],
)  # fmt: skip
def test_a_field_that_is_refused_by_name_is_left_out_alone(message, param, left_out):
    assert changed(f"HTTP 400: {message}", param=param) == {left_out}


@pytest.mark.parametrize("message", ["Only one completion choice is allowed", "the moon is full"])
def test_a_refusal_of_several_replies_that_names_no_field_is_tried_with_one_reply(message):
    assert changed(f"HTTP 400: {message}", Sampling(n=4)) == {"n"}
    assert changed(f"HTTP 400: {message}", Sampling(n=1)) is None
    assert changed("HTTP 400: property 'top_k' is unsupported", Sampling(n=4)) == {"top_k"}
    body = RequestBody("m", {"n": 4})
    assert (
        body.adapted(ModelError("refused", message), body.build(CHAT, Sampling(), None, body.form), body.form) is None
    )


def test_of_temperature_and_top_p_together_the_neutral_one_goes():
    both = "HTTP 400: `temperature` and `top_p` cannot both be specified for this model. Please use only one."
    assert changed(both, Sampling(0.7, 1.0)) == {"top_p"}
    assert changed(both, Sampling(1.0, 0.9)) == {"temperature"}
    assert changed(both, Sampling(1.0, 1.0)) == {"top_p"}


@pytest.mark.parametrize(
    "message",
    [
        "`temperature` must be strictly positive",  # without it the server would sample with another temperature
        "max_tokens is too large: 1024. This model supports at most 512 completion tokens.",
        "the moon is full",
        "Invalid assistant message: role='assistant' content=None tool_calls=None",
        "Cannot parse the request. Its temperature was read.",
        "A prompt about the temperature of a seed cannot be processed: unsupported language.",
    ],
)
def test_a_value_or_a_word_is_no_reason_to_leave_a_field_out(message):
    assert changed(f"HTTP 400: {message}", Sampling(0.0)) is None


@pytest.mark.parametrize("kind", ["context", "filtered", "auth", "server"])
def test_only_a_refusal_is_about_a_field(kind):
    assert (
        changed("Unsupported parameter: 'max_tokens'; use 'max_completion_tokens'. 'seed' is unknown.", kind=kind)
        is None
    )


def test_the_limit_of_tokens_gets_its_other_name_for_chats_only():
    other = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    assert changed(other, param="max_tokens") == {"max_tokens", "max_completion_tokens"}
    assert changed(other, prompt=TEXT, param="max_tokens") is None
    assert changed("'max_tokens' or 'max_completion_tokens' is too large: 900.") is None


def test_a_prompt_of_token_ids_becomes_text_only_once():
    body = RequestBody("m", None)
    error = ModelError("refused", "prompt: Input should be a valid string")
    sent = body.build(TEXT, Sampling(), None, body.form)
    form = body.adapted(error, sent, body.form)
    assert form.text_only and body.adapted(error, body.build(TEXT, Sampling(), None, form), form) is None


def test_nothing_is_learned_from_a_refusal_until_a_call_without_the_field_is_answered():
    body = RequestBody("m", None)
    error = ModelError("refused", "unknown field `seed`")
    form = body.adapted(error, body.build(CHAT, Sampling(), None, body.form), body.form)
    assert "seed" in body.build(CHAT, Sampling(), None, body.form) and not body.changes()
    body.accept(form, error)
    assert "seed" not in body.build(CHAT, Sampling(), None, body.form) and body.changes() == ["seed"]


def test_fields_that_the_user_gave_are_not_touched():
    body = RequestBody("m", {"seed": 7})
    sent = body.build(CHAT, Sampling(), None, body.form)
    assert body.adapted(ModelError("refused", "unknown field `seed`"), sent, body.form) is None
