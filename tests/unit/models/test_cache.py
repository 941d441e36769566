"""Model calls on disk: found again, never mistaken, whatever happens to the file."""

import asyncio
import json
import os
import shutil
import sqlite3

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

    async def complete(self, messages, sampling):
        self.calls += 1
        return [Completion(f"{self.calls}.{i} é", [1, 2], [-0.5, -1e-9], "stop", 7, 5) for i in range(sampling.n)]

    async def complete_parts(self, parts, sampling, tokenizer=None):
        return await self.complete(parts, sampling)


def cached(folder, model=None, **identity):
    return CachedModel(model or Counting(), {"name": "m", **identity}, CallCache(folder))


def reply(model, messages=ASKED, **sampling):
    return asyncio.run(model.complete(messages, Sampling(**sampling)))


def test_a_reply_comes_back_exactly_also_in_another_process_and_the_model_is_not_asked(tmp_path):
    first = cached(tmp_path)
    replies = reply(first, n=2)
    second = cached(tmp_path)
    assert reply(second, n=2) == replies and second.model.calls == 0
    assert second.summary() == {"cache": {"hits": 1, "misses": 0}}


@pytest.mark.parametrize(
    "change",
    [{"seed": 1}, {"temperature": 0.5}, {"top_p": 0.9}, {"max_tokens": 7}, {"n": 2}, {"messages": [*ASKED, *ASKED]}],
    ids=lambda change: next(iter(change)),
)
def test_whatever_the_reply_depends_on_is_in_the_key(tmp_path, change):
    model = cached(tmp_path)
    reply(model)
    reply(model, **change)
    assert model.model.calls == 2


def test_another_model_another_tokenizer_and_other_parts_are_other_calls(tmp_path):
    calls = []
    for identity in ({"name": "m"}, {"name": "n"}, {"name": "m", "engine": "vllm"}):
        model = cached(tmp_path, **identity)
        reply(model)
        calls.append(model.model.calls)
    assert calls == [1, 1, 1]
    model = cached(tmp_path)

    async def parts():
        for text, tokenizer in (("a", None), ("a", "t"), ("b", None), ("a", None)):
            await model.complete_parts([{"text": text, "train": False}], Sampling(), tokenizer)

    asyncio.run(parts())
    assert model.model.calls == 3


def test_greedy_replies_do_not_depend_on_the_seed(tmp_path):
    model = cached(tmp_path)
    assert reply(model, temperature=0.0, seed=1) == reply(model, temperature=0.0, seed=2) and model.model.calls == 1


def test_damaged_entries_are_asked_again_and_a_damaged_file_is_left_alone(tmp_path):
    model = cached(tmp_path)
    for seed in range(200):
        reply(model, seed=seed)
    database = sqlite3.connect(tmp_path / DATABASE, isolation_level=None)
    database.execute("UPDATE calls SET replies = ? WHERE key IN (SELECT key FROM calls LIMIT 1)", ("rubbish",))
    database.close()
    again = cached(tmp_path)
    for seed in range(200):
        reply(again, seed=seed)
    assert again.model.calls == 1
    again.cache.close()
    model.cache.close()
    file = tmp_path / DATABASE
    content = file.read_bytes()
    half = len(content) // 2  # the first pages, which are read when the cache is opened, stay as they are
    file.write_bytes(content[:half] + os.urandom(len(content) - half))
    broken = cached(tmp_path)
    assert [len(reply(broken, seed=seed)) for seed in range(200)] == [1] * 200  # every call is answered all the same


def test_what_is_no_cache_is_refused_at_the_start(tmp_path):
    (tmp_path / DATABASE).write_bytes(b"this is no database at all" * 100)
    with pytest.raises(UserError, match="cannot be used"):
        CallCache(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be used"):
        CallCache(tmp_path / "file")


def test_a_full_disk_ends_the_cache_and_not_the_run(tmp_path, caplog):
    model = cached(tmp_path)
    model.cache._store.execute("PRAGMA max_page_count = 40")
    replies = [reply(model, messages=[{"role": "user", "content": str(n)}]) for n in range(60)]
    assert len(replies) == 60 and model.model.calls == 60

    async def fill():
        for number in range(60):
            noise = os.urandom(3000).hex()
            await model.cache.put(str(number), [Completion(noise, None, None, "stop")])

    asyncio.run(fill())
    assert "is not used from now on" in caplog.text and len(reply(model, seed=9)) == 1


def test_a_loaded_model_is_known_by_its_weights(tiny_chat_model, tmp_path):
    shutil.copytree(tiny_chat_model, tmp_path / "a")
    cache = CallCache(tmp_path / "cache")
    first = load_model(str(tmp_path / "a"), device="cpu", cache=cache)
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    (tmp_path / "a" / "config.json").write_text(json.dumps({**config, "note": "changed"}))
    second = load_model(str(tmp_path / "a"), device="cpu", cache=cache)
    assert first.identity["name"] != second.identity["name"]


def test_the_folder_in_the_settings_of_calls_is_the_cache(tiny_chat_model, tmp_path):
    model = load_model(tiny_chat_model, calls=CallSettings(cache=str(tmp_path / "cache")), device="cpu")
    assert isinstance(model, CachedModel) and (tmp_path / "cache").is_dir()


def test_a_model_without_calls_has_the_stored_replies_only(tmp_path):
    model = cached(tmp_path)
    replies = reply(model)
    without = model.cache.without_calls(model)
    assert reply(without) == replies and model.model.calls == 1
    with pytest.raises(ModelError) as error:
        reply(without, seed=3)
    assert error.value.kind == "not stored" and model.model.calls == 1
    assert model.cache.without_calls(model.model) is model.model  # nothing is stored of a model without a cache


def test_silence_is_not_stored_so_that_a_model_that_was_mended_is_asked_again(tmp_path):
    class Silent(Counting):
        async def complete(self, messages, sampling):
            self.calls += 1
            return [Completion(text, None, None, "length") for text in self.texts[: sampling.n]]

    model = Silent()
    for model.texts in (["", " "], ["<think>Hm", ""]):
        for number in (1, 2):
            model.calls = 0
            for _ in range(2):
                reply(cached(tmp_path, model), n=number)
            assert model.calls == 2
    model.calls, model.texts = 0, ["", "Yes."]
    assert [reply(cached(tmp_path, model), n=2)[1].text for _ in range(2)] == ["Yes."] * 2 and model.calls == 1
