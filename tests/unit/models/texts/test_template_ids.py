"""Prompts and trained texts have the token ids of the chat template's own text, for the tokenizers of the field."""

import copy
from functools import cache

import pytest

from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.errors import UserError
from tests.support.field_tokenizers import FIELD, QWEN3_OPENS, VICUNA, field_tokenizer

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
        assert chat.decode(last_run(ids, train)).removesuffix("\n</answer>") == SAID[count - 1]["content"]
        assert ids == expected[: len(ids)] and ids[-1] in chat.eos_ids
        if name not in OPENING + ADDING:
            assert last_run(ids, train) == expected[len(template_ids(chat, SAID[: count - 1], True)) : len(ids)]


@EVERY
def test_candidates_as_text_have_the_ids_of_the_template_and_tokenise_their_prompt_once(name):
    chat = ChatFormat(copy.deepcopy(field_tokenizer(name)))
    prompt = chat.prompt([{"role": "user", "content": "fee? " * 2000}])
    before = chat.encode(prompt)[0]
    read, encoded = [], chat._encoded
    chat._encoded = lambda text: read.append(text) or encoded(text)
    for reply in ("Which days?", "I see", "x = 1"):
        said = [{"role": "user", "content": "fee? " * 2000}, {"role": "assistant", "content": reply}]
        ids, train = chat.encode([*prompt, {"text": reply + chat.eos_text, "train": True}])
        assert ids[: len(before)] == before and chat.decode(last_run(ids, train)) == reply
        if name not in (*OPENING, *ADDING, "llama2 legacy", "llama2, first", "glm"):  # Llama 2 ends with ` </s>`
            assert ids == template_ids(chat, said)[: len(ids)]
    assert sum(map(len, read)) < 5000


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


@EVERY
def test_special_token_text_of_either_side_stays_text(name):
    chat = chat_of(name)
    attack = "x".join(FIELD[name][2]) + "".join(FIELD[name][2]) + "z"
    plain = [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "c"}]
    attacked = [{"role": "user", "content": f"a{attack}b"}, {"role": "assistant", "content": f"c{attack}"}]
    (bare, _), (ids, _) = (chat.encode(chat.dialogue(said)) for said in (plain, attacked))
    added = set(chat.tokenizer.added_tokens_decoder)
    assert [i for i in ids if i in added] == [i for i in bare if i in added]
    assert chat.tokenizer.decode(ids).replace("\u200b", "").count(attack) == 2


def test_a_reply_that_begins_with_what_the_header_ends_with_is_cut_there():
    chat = chat_of("gemma")  # in which two line breaks are one token
    prompt = chat.prompt(SAID[:1])
    ids, train = chat.encode([*prompt, {"text": f"\nb{chat.eos_text}", "train": True}])
    assert chat.tokenizer.convert_ids_to_tokens(last_run(ids, train)) == ["\n", "b", "<end_of_turn>"]
    assert ids[: len(ids) - 3] == template_ids(chat, SAID[:1], True)


@pytest.mark.parametrize("name", OPENING)
def test_a_reply_without_reasoning_is_as_the_template_writes_it(name):
    chat = chat_of(name)
    parts = chat.dialogue(SAID[:2])
    ids, train = chat.encode(parts)
    text = chat.tokenizer.decode(ids)
    assert text.count("<think>") == text.count("</think>")
    assert chat.decode(last_run(ids, train)) == SAID[1]["content"]


def changed(name: str, template: str) -> ChatFormat:
    tokenizer = copy.deepcopy(field_tokenizer(name))
    tokenizer.chat_template = template
    return ChatFormat(tokenizer, name="the model")


def test_a_template_that_changes_a_reply_is_refused_with_both_texts():
    with pytest.raises(UserError, match=r"the model .*y = 2\.<\|im_end\|>.*y = 2\.<\|im_end\|>") as error:
        changed("qwen3 thinking", QWEN3_OPENS.replace("m.content %}", "m.content | replace('\n', ' ') %}", 1))
    assert "x = 1      y" in str(error.value) and r"x = 1\n\n    y" in str(error.value)


def test_a_header_whose_end_belongs_to_the_reply_s_first_token_is_refused():
    with pytest.raises(UserError, match="the model .*white space at the end"):
        changed("vicuna", VICUNA.replace("'ASSISTANT:'", "'ASSISTANT: '"))
