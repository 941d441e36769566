"""Prompts and trained texts have the token ids of the chat template's own text, for the tokenizers of the field."""

import copy
from functools import cache

import pytest

from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.errors import UserError
from tests.support.field_tokenizers import FIELD, QWEN3_OPENS, field_tokenizer

EVERY = pytest.mark.parametrize("name", FIELD)
OPENING = ("qwen3 thinking", "r1", "keeps its reasoning")  # their prompts open the reasoning
ADDING = ("qwen3", "glm, thinking", "harmony", "tags")  # their markup before a reply is longer than the prompt
SAID = [
    {"role": "user", "content": "What fee,\n\n  per day?"},
    {"role": "assistant", "content": "Which days do you mean?"},
    {"role": "user", "content": "Monday.\nés 日"},
    {"role": "assistant", "content": "I can say:\n\n    x = 1\n\n\n    y = 2"},
    {"role": "user", "content": "2 others"},
    {"role": "assistant", "content": "日: 1."},
]


@cache
def chat_of(name: str) -> ChatFormat:
    return ChatFormat(field_tokenizer(name), name=name)


def template_ids(chat: ChatFormat, messages: list[dict], prompt: bool = False) -> list[int]:
    return chat.tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False, add_generation_prompt=prompt)


def last_run(ids: list[int], train: list[bool]) -> list[int]:
    return ids[len(train) - train[::-1].index(False) :]


@EVERY
def test_prompts_and_replies_have_the_ids_of_the_template(name):
    chat = chat_of(name)
    for count in range(1, len(SAID) + 1):
        prompt = count % 2 == 1
        ids, train = chat.encode((chat.prompt if prompt else chat.dialogue)(SAID[:count]))
        expected = template_ids(chat, SAID[:count], prompt)
        if prompt:
            assert ids == expected
            continue
        if name == "glm":  # it closes the last reply with nothing
            expected.append(chat.eos_ids[0])
        reply = SAID[count - 1]["content"]
        assert chat.decode(last_run(ids, train)) == reply
        assert ids == expected[: len(ids)] and ids[-1] in chat.eos_ids
        if name not in OPENING + ADDING:
            before = chat.prompt(SAID[: count - 1])
            assert last_run(ids, train) == expected[len(chat.encode(before)[0]) : len(ids)]
            if not name.startswith("llama2 legacy") and name != "llama2, first":  # these end with ` </s>`
                assert chat.encode([*before, {"text": reply + chat.eos_text, "train": True}]) == (ids, train)


@EVERY
def test_sampled_ids_stay_and_every_prompt_begins_the_dialogue(name):
    chat = chat_of(name)
    messages, prompts = [], []
    for asked, reply in zip(SAID[::2], SAID[1::2], strict=True):
        messages.append(asked)
        prompts.append(chat.encode(chat.prompt(messages), chat.fingerprint)[0])
        ids = [i for c in reply["content"] for i in chat.tokenizer.encode(c, add_special_tokens=False)]
        messages.append(reply | {"token_ids": [*ids, chat.eos_ids[0]], "finish_reason": "stop"})
    ids, train = chat.encode(chat.dialogue(messages), chat.fingerprint)
    for prompt, message in zip(prompts, messages[1::2], strict=True):
        sampled = message["token_ids"]
        assert ids[: len(prompt) + len(sampled)] == [*prompt, *sampled]
        assert all(train[len(prompt) : len(prompt) + len(sampled)]) and not train[len(prompt) - 1]


@pytest.mark.parametrize("name", OPENING)
def test_a_reply_without_reasoning_is_as_the_template_writes_it(name):
    chat = chat_of(name)
    parts = chat.dialogue(SAID[:2])
    ids, train = chat.encode(parts)
    text = chat.tokenizer.decode(ids)
    assert text.count("<think>") == text.count("</think>")
    assert chat.decode(last_run(ids, train)) == SAID[1]["content"]


@EVERY
def test_a_marker_is_trained_only_at_the_end_of_a_reply_that_ended(name):
    chat = chat_of(name)
    for finish in ("stop", "length"):
        reply = {"role": "assistant", "content": "  I say\n ", "finish_reason": finish}
        ids, train = chat.encode(chat.prompt([SAID[0], reply, SAID[2]]))
        trained = [token for token, is_trained in zip(ids, train, strict=True) if is_trained]
        markers = {*chat.tokenizer.added_tokens_decoder, *chat.tokenizer.all_special_ids}
        assert not markers & set(trained[:-1])
        assert trained[-1] not in markers or finish == "stop"


def test_a_template_that_changes_a_reply_is_refused_with_both_texts():
    tokenizer = copy.deepcopy(field_tokenizer("qwen3 thinking"))
    tokenizer.chat_template = QWEN3_OPENS.replace("m.content %}", "m.content | replace('\n', ' ') %}", 1)
    with pytest.raises(UserError, match="the model .*changes a reply") as error:
        ChatFormat(tokenizer, name="the model")
    assert "x = 1      y" in str(error.value) and r"x = 1\n\n    y" in str(error.value)
