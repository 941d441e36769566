"""Model calls on disk: found again, never mistaken, and paid for once."""

import asyncio
import json
import shutil

import pytest

from sweet_rl.models.base import Completion, ModelError, Sampling
from sweet_rl.models.cache import DATABASE, CachedModel, CallCache
from sweet_rl.models.load import load_model
from sweet_rl.models.settings import CallSettings
from sweet_rl.runs.errors import UserError

ASKED = [{"role": "user", "content": "how many?"}]


class Counting:
    """A model that numbers its replies."""

    chat = None

    def __init__(self) -> None:
        self.calls = 0

    async def complete(self, prompt, sampling):
        self.calls += 1
        return [Completion(f"{self.calls}.{i} é", [1, 2], [-0.5, -1e-9], "stop", 7, 5) for i in range(sampling.n)]


def cached(folder, model=None, **identity):
    return CachedModel(model or Counting(), {"name": "m"} | identity, CallCache(folder))


def reply(model, prompt=ASKED, **sampling):
    return asyncio.run(model.complete(prompt, Sampling(**sampling)))


def test_a_reply_comes_back_exactly_also_in_another_process_and_the_model_is_not_asked(tmp_path):
    first = cached(tmp_path)
    replies = reply(first, n=2)
    second = cached(tmp_path)
    assert reply(second, n=2) == replies and second.model.calls == 0
    assert second.summary() == {"cache": {"hits": 1, "misses": 0}}


@pytest.mark.parametrize(
    "change",
    [{"name": "n"}, {"seed": 1}, {"temperature": 0.5}, {"max_tokens": 7}, {"n": 2},
     {"prompt": ASKED * 3}, {"prompt": [5, 6]}],
    ids=str,
)  # fmt: skip
def test_whatever_the_reply_depends_on_is_in_the_key(tmp_path, change):
    model = cached(tmp_path)
    reply(model)
    other = cached(tmp_path, model.model, name=change.pop("name", "m"))
    for _ in range(2):
        reply(other, **change)
        assert model.model.calls == 2
    assert reply(model, temperature=0.0, seed=1) == reply(model, temperature=0.0, seed=2)


def test_the_key_of_messages_is_that_of_older_versions(tmp_path):
    """Replies that were paid for by version 1.15 are found."""
    model = cached(tmp_path)
    assert model._key(ASKED, Sampling()) == "f46a902037cbcf557813fd7970f254699b4742f0b251cb3c4241fd5575ef4835"


def test_a_reply_that_was_paid_for_and_failed_fails_again_without_a_call(tmp_path):
    class Filtered(Counting):
        kind = "filtered"

        async def complete(self, prompt, sampling):
            self.calls += 1
            raise ModelError(self.kind, "not this")

    model = Filtered()
    for _ in range(2):
        with pytest.raises(ModelError, match="not this") as error:
            reply(cached(tmp_path, model))
        assert error.value.kind == "filtered" and model.calls == 1
    model.kind = "timeout"
    for _ in range(2):
        with pytest.raises(ModelError):
            reply(cached(tmp_path, model), seed=1)
    assert model.calls == 3


def test_silence_is_not_stored_so_that_a_model_that_was_mended_is_asked_again(tmp_path):
    class Silent(Counting):
        async def complete(self, prompt, sampling):
            self.calls += 1
            return [Completion(text, None, None, "length") for text in self.texts[: sampling.n]]

    model = Silent()
    model.texts = ["<think>Hm", ""]
    for _ in range(2):
        reply(cached(tmp_path, model), n=2)
    assert model.calls == 2
    model.calls, model.texts = 0, ["", "Yes."]
    assert [reply(cached(tmp_path, model), n=2)[1].text for _ in range(2)] == ["Yes."] * 2 and model.calls == 1


def test_what_is_no_cache_is_refused_at_the_start(tmp_path):
    (tmp_path / DATABASE).write_bytes(b"this is no database at all" * 100)
    with pytest.raises(UserError, match="cannot be used"):
        CallCache(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be used"):
        CallCache(tmp_path / "file")


def test_a_loaded_model_is_known_by_its_weights(tiny_chat_model, tmp_path):
    shutil.copytree(tiny_chat_model, tmp_path / "a")
    cache = CallCache(tmp_path / "cache")
    first = load_model(str(tmp_path / "a"), cache=cache)
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    (tmp_path / "a" / "config.json").write_text(json.dumps({**config, "note": "changed"}))
    second = load_model(str(tmp_path / "a"), cache=cache)
    assert first.identity["name"] != second.identity["name"]


def test_the_folder_in_the_settings_of_calls_is_the_cache(tiny_chat_model, tmp_path):
    model = load_model(tiny_chat_model, calls=CallSettings(cache=str(tmp_path / "cache")))
    assert isinstance(model, CachedModel) and (tmp_path / "cache").is_dir()
