"""A pretrained chat model as agent of the mini tasks."""

import random
import re

import pytest
import torch

from lab.mini_agents import pretraining
from lab.mini_agents.imitation import imitation_dialogue
from lab.smollm2 import chat_agent
from lab.smollm2.chat_agent import ChatTokens
from sweet_rl.dialogues.mini.tasks import make_tasks
from sweet_rl.method.privileged_information import hint_text
from sweet_rl.models.texts.chat import ChatFormat
from tests.support.chat_families import small_tokenizer
from tests.support.command_line import call


@pytest.mark.parametrize("family", ["chatml", "llama31", "mistral"])
@pytest.mark.parametrize("informed", [False, True])
def test_a_pretrained_model_imitates_in_its_own_markup_and_learns_its_own_turns_only(family, informed):
    chat = ChatFormat(small_tokenizer(family))
    task = make_tasks(1, seed=3)[0]
    messages = imitation_dialogue(task, informed, random.Random(2))
    hint = hint_text(task["ground_truth"]) if informed else ""
    ids, weights = ChatTokens(chat).encode(hint, messages)
    shown = chat.tokenizer.decode(ids)
    assert shown.startswith(chat.bos_text + hint)
    assert all(message["content"] in shown for message in messages) and shown.count("In light that") == informed
    learned = chat.tokenizer.decode(ids[weights == 1])
    replies = [chat.lead + message["content"] + chat.eos_text for message in messages if message["role"] == "assistant"]
    assert learned == "".join(replies) and set(weights.tolist()) == {0.0, 1.0}


@pytest.mark.slow
def test_a_pretrained_chat_model_becomes_an_agent_and_keeps_its_markup(tmp_path):
    tokenizer = small_tokenizer("chatml")
    tokenizer.save_pretrained(tmp_path / "chat")
    torch.manual_seed(0)
    pretraining.make_model(len(tokenizer), width=32, layers=1).save_pretrained(tmp_path / "chat")
    flags = {"pretrain": tmp_path / "chat", "num_steps": 4, "batch_size": 2, "checkpoint_every": 2}
    done = call("lab.smollm2.make_chat_agent", save_path=tmp_path / "agent", **flags)
    assert done.code == 0, done.err
    first, last = (float(loss) for loss in re.findall(r"held_out_loss ([\d.]+)", done.out + done.err))
    assert last < first
    assert ChatFormat.from_pretrained(str(tmp_path / "agent")).eos_text == "<|im_end|>"


def test_a_model_is_named_as_on_the_hub(tmp_path, monkeypatch):
    monkeypatch.setattr(pretraining, "imitate", lambda agent, *_: {})
    monkeypatch.setattr(chat_agent, "chat_agent", lambda name, _: name)
    done = call("lab.smollm2.make_chat_agent", save_path=tmp_path / "agent", pretrain="someone/no-folder", num_steps=1)
    assert done.code == 0, done.err
