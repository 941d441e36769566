"""The packaged agents: their size, and their tokens of numbers. lab/mini_agents makes them."""

import pytest
from transformers import AutoModelForCausalLM

from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import model_path

pytestmark = pytest.mark.parametrize("name", ["mini", "mini_hard"])


def test_the_packaged_agent_is_an_ordinary_llama_of_about_a_million_parameters(name):
    model = AutoModelForCausalLM.from_pretrained(model_path(name))
    assert model.config.model_type == "llama"
    assert 5e5 < sum(parameter.numel() for parameter in model.parameters()) < 2e6


def test_every_number_of_the_tasks_is_one_token(name):
    chat = ChatFormat.from_pretrained(model_path(name))
    for number in range(100):
        assert len(chat.tokenizer(f" {number}", add_special_tokens=False).input_ids) == 1
