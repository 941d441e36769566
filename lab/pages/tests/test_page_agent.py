"""The tiny page agent: draws pages, and learns from nothing else than imitation."""

import asyncio

import pytest
from transformers import AutoModelForCausalLM

from lab.pages.page_tasks import make_page_tasks
from lab.pages.pages import read_page
from sweet_rl.dialogues.task_types import load_domain
from sweet_rl.method.privileged_information import hint_text
from sweet_rl.models.base import Sampling
from sweet_rl.models.load import load_model
from sweet_rl.models.texts.chat import ChatFormat
from tests.support.command_line import ROOT

AGENT = ROOT / "lab" / "pages" / "agent"


@pytest.fixture(scope="module")
def chat():
    return ChatFormat.from_pretrained(str(AGENT))


def test_it_is_an_ordinary_llama_of_less_than_a_million_parameters():
    model = AutoModelForCausalLM.from_pretrained(str(AGENT))
    assert model.config.model_type == "llama"
    assert 5e5 < sum(parameter.numel() for parameter in model.parameters()) < 1e6


def test_a_page_and_the_hint_come_back_whole(chat):
    for task in make_page_tasks(20, seed=1):
        for text in (task["ground_truth"], hint_text(task["ground_truth"])):
            assert chat.tokenizer.decode(chat.tokenizer.encode(text, add_special_tokens=False)) == text


def test_it_draws_pages_of_the_site_that_is_asked_for():
    prompt = load_domain("lab/pages/domain.py").agent_template()
    tasks = make_page_tasks(30, seed=2)
    model = load_model(str(AGENT))

    rows = [[{"role": "user", "content": prompt.format(**task)}] for task in tasks]

    async def first_messages():
        said = (model.complete(row, Sampling(max_tokens=64, seed=n)) for n, row in enumerate(rows))
        return [completion.text for (completion,) in await asyncio.gather(*said)]

    pages = [read_page(_page(text)) for text in asyncio.run(first_messages())]
    named = zip(pages, tasks, strict=True)
    assert sum(page is not None and page.site in task["problem_description"] for page, task in named) >= 25


def _page(text):
    return text[text.find("<html>") :]
