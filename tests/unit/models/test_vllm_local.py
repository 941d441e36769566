"""How vLLM's engine is started, with a stand-in that records it. tests/integration runs the real one where it is."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType, SimpleNamespace

import pytest

from sweet_rl.models.vllm_local import VLLMModel
from sweet_rl.runs.errors import UserError


@pytest.fixture
def started(monkeypatch) -> list[dict]:
    """The settings of each engine that was started; with max_model_len 0 it does not start."""
    made: list[dict] = []

    def from_engine_args(settings, usage_context):
        if settings["max_model_len"] == 0:
            raise ValueError("no room for the cache.\nMore lines")
        made.append({"context": usage_context, **settings})

    modules = {
        "vllm": {},
        "vllm.engine": {},
        "vllm.engine.arg_utils": {"AsyncEngineArgs": dict},
        "vllm.usage": {},
        "vllm.usage.usage_lib": {"UsageContext": SimpleNamespace(OPENAI_API_SERVER="server")},
        "vllm.v1": {},
        "vllm.v1.engine": {},
        "vllm.v1.engine.async_llm": {"AsyncLLM": SimpleNamespace(from_engine_args=from_engine_args)},
    }
    for name, content in modules.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    return made


def test_an_engine_is_started_as_a_server_is_for_the_longest_texts_that_fit(started, tiny_chat_model):
    for settings in ({}, {"max_model_len": 64, "tensor_parallel_size": 2}):
        asyncio.run(VLLMModel(tiny_chat_model, **settings).check())
    common = {"context": "server", "model": tiny_chat_model, "logprobs_mode": "processed_logprobs"}
    assert started == [
        common | {"max_model_len": -1, "data_parallel_size": 1},
        common | {"max_model_len": 64, "tensor_parallel_size": 2},
    ]


def test_an_engine_that_does_not_start_says_why_and_what_can_be_changed(started, tiny_chat_model):
    with pytest.raises(UserError, match=r"no room for the cache\. .*engine_settings"):
        asyncio.run(VLLMModel(tiny_chat_model, max_model_len=0).check())
