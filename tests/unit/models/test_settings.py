"""Settings that scripts share for models and calls."""

import asyncio

import pytest
import torch

from sweet_rl.models.load import load_model
from sweet_rl.models.settings import CallSettings, ModelSettings, base_url, server_and_key
from sweet_rl.runs.cli import to_settings
from sweet_rl.runs.errors import UserError


def test_a_manifest_has_the_request_fields_and_the_number_format_and_not_where_a_model_runs(monkeypatch):
    monkeypatch.setenv("KEY", "sk-of-a-server")
    assert to_settings(ModelSettings("openai", "node1", "m", None, "KEY")) == {"request": None, "bf16": None}


def test_hostnames_become_urls():
    assert base_url("node1") == "http://node1:8000/v1"
    assert base_url("node1:9") == "http://node1:9/v1"
    assert base_url("https://api.example.org/v1/") == "https://api.example.org/v1"
    for name in (" ", "ftp://node1", "a b", "node1:port", "node1/v1"):
        with pytest.raises(UserError, match="host, host:port or a full URL"):
            base_url(name)
    with pytest.raises(UserError, match="no user, password or query"):
        base_url("user:password@node1")
    with pytest.raises(UserError, match="is no server"):  # of a variable that is not set: not OpenAI in its place
        server_and_key(" ", None)
    with pytest.raises(UserError, match="data-parallel-size.* --shard 1/2"):
        base_url("node1,node2")


@pytest.mark.parametrize("wrong", [{"timeout": 0}, {"patience": -1}, {"endpoint_concurrency": 0}])
def test_values_out_of_range_are_refused_by_the_name_of_their_flag(wrong):
    with pytest.raises(UserError, match=f"--{next(iter(wrong))}"):
        CallSettings(**wrong)


@pytest.mark.parametrize(("bf16", "dtype"), [(None, torch.float32), (False, torch.float32), (True, torch.bfloat16)])
def test_weights_in_this_process_have_the_number_format_that_was_asked_for(tiny_chat_model, bf16, dtype):
    model = load_model(tiny_chat_model, ModelSettings(bf16=bf16))
    assert {weights.dtype for weights in model.engine.model.parameters()} == {dtype}
    asyncio.run(model.close())


@pytest.mark.parametrize(("settings", "named"), [
    ({"hostname": "localhost:9", "engine_settings": {"max_model_len": 64}}, "server"),
    ({"engine_settings": {"max_model_len": 64}}, "those of vLLM"),
])  # fmt: skip
def test_settings_that_an_engine_does_not_have_are_refused(tiny_chat_model, settings, named):
    with pytest.raises(UserError, match=named):
        load_model(tiny_chat_model, ModelSettings(**settings))
