"""Reasoning before a reply: nobody but the model sees it, and it stays in what is trained."""

import pytest

from sweet_rl.dialogues import AnswerEnvironment
from sweet_rl.models.base import Completion
from sweet_rl.models.texts.chat import ChatFormat, parts_text
from sweet_rl.models.thinking import without_thinking
from sweet_rl.runs.records import Task
from tests.support.chat_families import small_tokenizer

THOUGHT = "<think>\nI could say I WANT TO ANSWER: now.\n</think>\n\n"
TASK = Task("Write f.", "def f(): return 1")


@pytest.mark.parametrize(
    "text, prompt, spoken",
    [
        (f"{THOUGHT}Which?", None, "Which?"),
        ("\n<think></think>Which?", None, "Which?"),
        ("<think>\nhm, hm", None, ""),
        ("hm\n</think>\n\nWhich?", "<|im_start|>assistant\n<think>\n", "Which?"),
        ("hm, hm", "<|im_start|>assistant\n<think>\n", ""),
        ("hm\n</think>\n\nWhich?", None, "Which?"),
        ("Which?", "<think>\n\n</think>\n\n", "Which?"),
        ("A tag is <think>, closed by </think>.", None, "A tag is <think>, closed by </think>."),
        (f"{THOUGHT}The tag </think> ends it.", None, "The tag </think> ends it."),
    ],
)
def test_the_reasoning_before_a_reply_is_cut(text, prompt, spoken):
    assert without_thinking(text, prompt) == spoken


@pytest.mark.parametrize("text, spoken", [("Which?", "Which?"), ("<think>hm", ""), ("hm</think>Which?", "Which?")])
def test_a_finished_text_that_does_not_close_the_reasoning_of_its_prompt_is_the_reply(text, spoken):
    environment = AnswerEnvironment(TASK, "{problem_description}")
    environment.step(Completion(text, None, None, "stop"), "<|im_start|>assistant\n<think>\n")
    assert environment.dialogue[-1]["content"] == spoken


@pytest.mark.parametrize("family", ["qwen3", "qwen3_thinking"])
def test_the_human_and_the_grader_see_the_reply_and_training_sees_what_was_sampled(family):
    chat = ChatFormat(small_tokenizer(family))
    environment = AnswerEnvironment(TASK, "{problem_description}")
    # A template that opens the reasoning itself leaves only its rest to the model.
    thought = THOUGHT.removeprefix("<think>\n") if family == "qwen3_thinking" else THOUGHT
    samples = [thought + "Which number?", thought + "I WANT TO ANSWER:\ndef f(): return 1"]
    sampled_ids = []
    for sample in samples:
        prompt = parts_text(chat.prompt(environment.observe()))
        ids = [*chat.tokenizer.encode(sample, add_special_tokens=False), chat.eos_ids[0]]
        sampled_ids.append(ids)
        environment.step(Completion(sample, ids, None, "stop"), prompt)
        if not environment.over:
            environment.add_human_reply("One.")
    assert [m["content"] for m in environment.dialogue if m["role"] == "assistant"] == [
        "Which number?", "I WANT TO ANSWER:\ndef f(): return 1",
    ]  # fmt: skip
    assert (environment.ending, environment.answer) == ("answered", "def f(): return 1")
    parts = chat.dialogue(environment.dialogue)
    assert [part["token_ids"] for part in parts if part["train"]] == sampled_ids
