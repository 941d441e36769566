"""Keys that were escaped several times over, in replies too, and the time that the search for them takes."""

import html
import json
import time
from urllib.parse import quote

import pytest

from sweet_rl.models.base import ModelError
from sweet_rl.models.replies import completions
from sweet_rl.models.settings import ModelSettings
from sweet_rl.redaction import holds_secret, redacted

KEYS = ["sk-'quote\"and\\\\two\\back/slash", "sk-%41+b&<c>=;?#@x", "sk-schlüssel-\U0001f511"]
ESCAPES = [json.dumps, ascii, html.escape, lambda text: quote(text, safe="")]


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_found_after_any_three_escapings(monkeypatch, key):
    monkeypatch.setenv("HUMAN_KEY", key)
    for one in ESCAPES:
        for two in ESCAPES:
            for three in ESCAPES:
                text = three(two(one(key)))
                left = redacted(f"before {text} after")
                assert left.startswith("before ") and left.endswith(" after") and len(left) < len(key) + 40, text
                assert not any(part in left for part in ("quote", "back", "slash", "41", "schl")), text


@pytest.mark.parametrize("filler", ["\\", "%5c", "\\u005c", "sk-\\", "%25", "&amp;"])
def test_the_search_takes_no_power_of_the_length(monkeypatch, filler):
    monkeypatch.setenv("HUMAN_KEY", KEYS[0])

    def seconds(count: int) -> float:
        start = time.perf_counter()
        holds_secret(filler * count)
        return time.perf_counter() - start

    seconds(10)
    assert seconds(32_000) < 40 * max(seconds(4_000), 0.002)  # 8 times if linear, 64 times if quadratic


@pytest.mark.parametrize("kind", ["chat", "text"])
@pytest.mark.parametrize("text", ["Bearer sk-mine-0123", "sk%2Dmine%2D0123", 'say {"k": "sk-mine-\\u00301\\u00323"}'])
def test_a_reply_with_the_key_of_a_named_variable_is_malformed_and_the_error_is_without_it(monkeypatch, kind, text):
    monkeypatch.setenv("WHATEVER", "sk-mine-0123")
    ModelSettings(api_key_variable="WHATEVER")
    choice = {"message": {"content": text}} if kind == "chat" else {"text": text, "token_ids": [1, 2]}
    with pytest.raises(ModelError, match="holds an API key") as error:
        completions({"choices": [{"message": {"content": "fine"}, "text": "fine"}, choice]}, 2, kind)
    assert error.value.kind == "malformed" and "mine" not in str(error.value)


def test_an_address_with_a_query_in_a_reply_stays_as_it_is():
    text = "see http://h/x?page=2#top and me:pass@h:8"
    (reply,) = completions({"choices": [{"message": {"content": text}}]}, 1, "chat")
    assert reply.text == text
