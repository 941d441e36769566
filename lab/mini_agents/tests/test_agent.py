"""How the mini agents are made: what they imitate, and their training."""

import itertools
import random

import pytest
import torch
from transformers import AutoModelForCausalLM

from lab.mini_agents import pretraining
from lab.mini_agents.imitation import BAD, INFORMED, imitation_dialogue, imitation_stream
from sweet_rl.dialogues.mini.oracle import told_topics, usefulness
from sweet_rl.dialogues.mini.tasks import make_tasks, rules_of
from sweet_rl.dialogues.mini.worlds import WORLDS
from sweet_rl.method.privileged_information import hint_text, with_hint
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.weights import model_path
from sweet_rl.runs.manifest import read_manifest
from tests.support.command_line import call

MAKE = "lab.mini_agents.make_mini_agent"


@pytest.fixture(scope="module", params=["mini", "mini_hard"])
def name(request):
    return request.param


@pytest.fixture(scope="module")
def chat(name):
    return ChatFormat.from_pretrained(model_path(name))


@pytest.fixture(scope="module")
def world(name):
    return WORLDS["hard" if name == "mini_hard" else "quick"]


@pytest.mark.parametrize("informed", [False, True])
def test_imitation_is_laid_out_as_dialogues_and_critics_are(chat, world, informed):
    task = make_tasks(1, seed=3, world=world)[0]
    messages = imitation_dialogue(task, informed, random.Random(2))
    hint = hint_text(task["ground_truth"]) if informed else ""
    ids, weights = pretraining.DialogueEncoder(chat.tokenizer).encode(hint, messages)
    for message in messages:
        if message["role"] == "assistant":
            message |= {"output": message["content"], "finish_reason": "stop"}
    parts = chat.dialogue(messages)
    if informed:
        parts = with_hint(parts, task["ground_truth"])
    expected, train = chat.encode(parts)
    assert ids.tolist() == expected
    assert (weights >= 1).tolist() == train


def test_an_informed_answer_is_the_reference_and_an_uninformed_one_holds_what_was_told():
    for seed, task in enumerate(make_tasks(30, seed=4)):
        informed = imitation_dialogue(task, True, random.Random(seed))[-1]
        if informed["role"] == "assistant" and "ANSWER" in informed["content"]:
            assert informed["content"].endswith(task["ground_truth"])
        messages = imitation_dialogue(task, False, random.Random(seed))
        if "ANSWER" in messages[-1]["content"]:
            told = told_topics(task["mini"], messages)
            lines = [rule.line("FLAG") for rule in rules_of(task["mini"]) if rule.topic in told]
            assert messages[-1]["content"].count("\n") == 3 + len(lines)


@pytest.mark.parametrize("share, hints", [(0.0, {False}), (0.5, {False, True}), (1.0, {True})])
def test_the_solution_stands_before_the_share_of_dialogues_that_is_asked_for(share, hints):
    assert {bool(hint) for hint, _ in itertools.islice(imitation_stream(0, informed_share=share), 20)} == hints


def test_the_informed_ask_more_to_the_point():
    def share(informed):
        words = []
        for seed, task in enumerate(make_tasks(60, seed=9)):
            messages = imitation_dialogue(task, informed, random.Random(seed))
            for place, message in enumerate(messages):
                if message["role"] == "assistant":
                    words.append(usefulness(task["mini"], messages[:place], message["content"]))
        return sum(word == "useful" for word in words) / len(words)

    assert INFORMED.useful > BAD.useful
    assert share(True) > share(False) + 0.1


def test_a_few_steps_of_imitation_lower_the_loss():
    torch.manual_seed(0)
    lessons = pretraining.LESSONS["quick"]
    tokenizer = pretraining.make_tokenizer(lessons, num_dialogues=100)
    encoder = pretraining.DialogueEncoder(tokenizer)
    model = pretraining.make_model(len(tokenizer), width=32, layers=2, heads=2)
    optimizers = pretraining.make_optimizers(model, 5e-3)
    stream = pretraining.batches(encoder, lessons, 8, seed=0, pool=2)
    losses = []
    for _ in range(15):
        loss = pretraining.weighted_loss(model, *next(stream))
        loss.backward()
        losses.append(loss.item())
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.slow
def test_an_agent_is_made_from_nothing_and_only_once(tmp_path):
    flags = {"num_steps": 3, "batch_size": 2, "layers": 1, "width": 32, "informed_share": 0.1}
    for said in ("saved to", "already complete"):
        done = call(MAKE, save_path=tmp_path / "agent", **flags)
        assert done.code == 0 and said in done.out, done.err
    assert read_manifest(tmp_path / "agent")["settings"].items() >= {"seed": 0, "informed_share": 0.1}.items()
    flags |= {"pretrain": tmp_path / "agent", "habits": "better"}
    assert call(MAKE, save_path=tmp_path / "better", **flags).code == 0
    before, after = (AutoModelForCausalLM.from_pretrained(tmp_path / name).state_dict() for name in ("agent", "better"))
    far = sum((after[key] - value).norm() for key, value in before.items())
    torch.manual_seed(1)  # not that of the script
    fresh = pretraining.make_model(before["model.embed_tokens.weight"].shape[0], 32, 1).state_dict()
    assert 0 < far < sum((after[key] - value).norm() for key, value in fresh.items()) / 2
    assert ChatFormat.from_pretrained(str(tmp_path / "agent")).eos_text == pretraining.END


@pytest.mark.slow
def test_a_stopped_agent_goes_on_from_its_last_checkpoint(tmp_path, monkeypatch):
    flags = {
        "save_path": tmp_path / "agent", "num_steps": 4, "batch_size": 2, "layers": 1, "width": 32,
        "checkpoint_every": 2,
    }  # fmt: skip
    clip, left = torch.nn.utils.clip_grad_norm_, iter(range(3))

    def stops(*given):
        if next(left, None) is None:
            raise KeyboardInterrupt  # in step 4, after the checkpoint of step 2
        return clip(*given)

    with monkeypatch.context() as patch:
        patch.setattr(torch.nn.utils, "clip_grad_norm_", stops)
        assert call(MAKE, **flags).code == 130
    done = call(MAKE, **flags)
    assert done.code == 0, done.err
    assert (done.out + done.err).count(", held_out_loss") == 1  # of step 4 alone
