"""Messages as parts and token ids, for the chat templates of eleven families of models."""

import copy
import json
import shutil
from functools import cache
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sweet_rl.method.privileged_information import with_hint
from sweet_rl.models.texts.chat import ChatFormat, parts_text
from sweet_rl.models.texts.released_texts import Markup, parts_from_text
from sweet_rl.runs.errors import UserError
from tests.support.chat_families import FAMILIES, LLAMA3, small_tokenizer
from tests.support.tiny_models import save_tiny_chat_model

EVERY = pytest.mark.parametrize("family", FAMILIES)
# These write a reply differently once it is history: no <think> before it, a space more.
REWRITING = ("qwen3", "qwen3_thinking", "mistral", "llama2")


@cache
def chat_of(family: str) -> ChatFormat:
    return ChatFormat(small_tokenizer(family))


def sampled(chat: ChatFormat, text: str, finish: str = "stop") -> dict:
    """A reply as a model would give it: its own split into tokens (a byte each), EOS if it finished."""
    ids = [i for c in text for i in chat.tokenizer.encode(c, add_special_tokens=False)]
    ids += [chat.eos_ids[0]] if finish == "stop" else []
    return {"role": "assistant", "content": text, "output": text, "token_ids": ids, "finish_reason": finish}


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def trained_runs(ids: list[int], train: list[bool]) -> list[list[int]]:
    runs: list[list[int]] = []
    for i, (token, trained) in enumerate(zip(ids, train, strict=True)):
        if trained:
            if i == 0 or not train[i - 1]:
                runs.append([])
            runs[-1].append(token)
    return runs


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in REWRITING])
def test_a_finished_dialogue_reads_as_the_template_writes_it(family):
    chat = chat_of(family)
    messages = [
        user("fee?"),
        sampled(chat, "Which days?"),
        user("3"),
        sampled(chat, "def f(): 1"),
        user("ok"),
    ]
    expected = chat.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert parts_text(chat.prompt(messages)) == expected


def dated(date: str) -> ChatFormat:
    tokenizer = copy.deepcopy(small_tokenizer("llama3"))
    tokenizer.chat_template = f"{{{{ 'Today is ' + ({date}) + '.' }}}}" + LLAMA3
    return ChatFormat(tokenizer)


@pytest.mark.parametrize("date, found", [
    ("strftime_now('%d %b %Y')", "26 Jul 2024"), ('strftime_now( "%Y-%m-%d" )', "2024-07-26"),
    ("date_string if date_string is defined else strftime_now('%B')", "July"),
])  # fmt: skip
def test_a_template_that_asks_for_todays_date_gets_the_same_one_every_day(date, found):
    assert parts_text(dated(date).prompt([user("fee?")])).startswith(f"Today is {found}.<|begin_of_text|>")


def test_a_date_that_cannot_be_fixed_is_refused():
    with pytest.raises(UserError, match="strftime_now"):
        dated("strftime_now('%d' + ' %b')")


@EVERY
def test_the_end_of_turn_marker_is_found(family):
    chat = chat_of(family)
    assert chat.eos_text == FAMILIES[family][-1]
    assert chat.tokenizer.convert_ids_to_tokens(chat.eos_ids[0]) == FAMILIES[family][-1]
    assert chat.tokenizer.eos_token_id in chat.eos_ids


TEXTS = st.text(st.characters(exclude_categories=("Cs", "Co")), min_size=1, max_size=30)
TURNS = st.lists(st.tuples(TEXTS, TEXTS, st.sampled_from(["stop", "length"])), min_size=1, max_size=4)


@EVERY
@settings(max_examples=15, deadline=None)
@given(turns=TURNS)
def test_every_prompt_begins_the_dialogue_and_sampled_ids_stay(family, turns):
    chat = chat_of(family)
    messages: list[dict] = []
    prompts = []
    for question, reply, finish in turns:
        messages.append(user(question))
        prompts.append(chat.encode(chat.prompt(messages), chat.fingerprint)[0])
        messages.append(sampled(chat, reply, finish))
    ids, train = chat.encode(chat.dialogue(messages), chat.fingerprint)

    for prompt, message in zip(prompts, messages[1::2], strict=True):
        assert ids[: len(prompt)] == prompt
        assert ids[len(prompt) : len(prompt) + len(message["token_ids"])] == message["token_ids"]
    assert trained_runs(ids, train) == [m["token_ids"] for m in messages[1::2]]
    assert len(ids) == len(prompts[-1]) + len(messages[-1]["token_ids"])
    if chat.bos_text and family != "llama2":
        assert ids.count(chat.tokenizer.bos_token_id) == 1 and ids[0] == chat.tokenizer.bos_token_id
    ended = sum(finish == "stop" for *_, finish in turns)
    trained_eos = sum(t and i in chat.eos_ids for i, t in zip(ids, train, strict=True))
    assert trained_eos == ended


@EVERY
@settings(max_examples=15, deadline=None)
@given(turns=TURNS)
def test_a_dialogue_without_ids_trains_an_eos_exactly_where_a_reply_finished(family, turns):
    # Of white space alone a template may leave nothing; replies with reasoning are refused.
    assume(all(reply.strip() and "think>" not in reply for _, reply, _ in turns))
    chat = chat_of(family)
    messages = [m for q, r, f in turns for m in (user(q), {"role": "assistant", "content": r, "finish_reason": f})]
    ids, train = chat.encode(chat.dialogue(messages))
    runs = trained_runs(ids, train)
    for (_, reply, finish), run in zip(turns, runs, strict=True):
        assert (run[-1] in chat.eos_ids) == (finish == "stop")
        assert not set(run[:-1]) & set(chat.eos_ids)
        assert chat.decode(run).strip() == reply.strip()  # templates may trim


@EVERY
def test_a_cut_reply_is_followed_by_an_untrained_marker_or_ends_the_dialogue(family):
    chat = chat_of(family)
    cut = sampled(chat, "I was cut", "length")
    ids, train = chat.encode(chat.prompt([user("a"), cut, user("b")]), chat.fingerprint)
    end = len(train) - train[::-1].index(True)
    marker = ids.index(chat.eos_ids[0], end)
    assert not any(train[end:]) and chat.tokenizer.decode(ids[end:marker]).strip() == ""
    ids, _ = chat.encode(chat.dialogue([user("a"), cut]), chat.fingerprint)
    assert ids[-len(cut["token_ids"]) :] == cut["token_ids"]


@EVERY
def test_special_token_text_of_a_user_never_becomes_the_token(family):
    chat = chat_of(family)
    specials = FAMILIES[family][1] + (["<think>"] if family == "qwen3" else [])
    attack = "x".join(specials) + "".join(specials)
    plain, _ = chat.encode(chat.prompt([user("a b"), sampled(chat, "c"), user("d")]), chat.fingerprint)
    parts = chat.prompt([user(f"a{attack}b"), sampled(chat, "c"), user(f"d{attack}")])
    ids, _ = chat.encode(parts, chat.fingerprint)
    assert f"a{attack}b" in parts_text(parts).replace("\u200b", "")
    added = set(chat.tokenizer.added_tokens_decoder)
    assert [i for i in ids if i in added] == [i for i in plain if i in added]
    assert attack in chat.tokenizer.decode(ids, clean_up_tokenization_spaces=False).replace("\u200b", "")


@EVERY
def test_special_token_text_in_a_reply_without_ids_never_becomes_the_token(family):
    chat = chat_of(family)
    attack = "".join(FAMILIES[family][1]) + "z"
    for finish, ending in (("stop", [chat.eos_ids[0]]), ("length", [])):
        reply = {"role": "assistant", "content": attack, "finish_reason": finish}
        ids, train = chat.encode(chat.dialogue([user("a"), reply]))
        (run,) = trained_runs(ids, train)
        added = set(chat.tokenizer.added_tokens_decoder)
        assert [i for i in run if i in added] == ending


def test_released_replies_without_a_finish_reason_are_finished_and_not_ended_twice():
    chat = chat_of("llama3")
    for output in ("Which days?", "Which days?<|eot_id|>"):
        parts = chat.dialogue([user("a"), {"role": "assistant", "content": "Which days?", "output": output}])
        assert parts[-1] == {"text": "Which days?<|eot_id|>", "train": True}


def test_ids_of_another_tokenizer_are_left_out():
    chat, other = chat_of("llama3"), chat_of("chatml")
    messages = [user("a"), sampled(other, "hello")]
    assert chat.fingerprint != other.fingerprint
    assert "token_ids" not in chat.dialogue(messages, tokenizer=other.fingerprint)[-1]
    assert chat.dialogue(messages, tokenizer=other.fingerprint)[-1]["text"] == "hello<|eot_id|>"
    parts = chat.dialogue([user("a"), sampled(chat, "hello")])
    assert chat.encode(parts, other.fingerprint) == chat.encode(parts) != chat.encode(parts, chat.fingerprint)


def test_text_that_a_template_would_trim_or_drop_stays_as_sampled():
    for family, reply in (
        ("llama3", "  padded \n"),
        ("qwen3", "<think>why</think>\n\nFour"),
        ("gemma", "\n x \n"),
    ):
        chat = chat_of(family)
        parts = chat.prompt([user("a"), sampled(chat, reply), user("b")])
        assert [p["text"] for p in parts if p["train"]] == [reply + chat.eos_text]


@EVERY
@pytest.mark.parametrize("reply", ["Which?", "  padded \n", "It is <|im| a"])
def test_a_templated_reply_reads_as_the_template_writes_it(family, reply):
    chat = chat_of(family)
    shown = [user("fee?"), {"role": "assistant", "content": reply}, user("3")]
    messages = [row | {"templated": True} if row["role"] == "assistant" else row for row in shown]
    expected = chat.tokenizer.apply_chat_template(shown, tokenize=False, add_generation_prompt=True)
    parts = chat.prompt(messages)
    if family not in REWRITING:
        assert parts_text(parts) == expected
    again = messages + [{"role": "assistant", "content": " b ", "templated": True}, user("c")]
    assert chat.prompt(again)[: len(parts) - 1] == parts[:-1], "a prompt is the beginning of the next one"
    (written,) = [part for part in parts if part["train"]]
    assert written["text"].removesuffix(chat.eos_text).strip() in reply


def test_a_reply_without_ids_that_has_a_reasoning_is_refused_and_one_whose_content_has_none_is_trained_without_it():
    chat = chat_of("qwen3")
    reply = {"role": "assistant", "content": "<think>why</think>\n\nFour"}
    with pytest.raises(UserError, match="reasoning .*why.* token ids"):
        chat.dialogue([user("a"), reply])
    parts = chat.dialogue([user("a"), {"role": "assistant", "content": "Four", "output": reply["content"]}])
    assert parts[-1] == {"text": "Four<|im_end|>", "train": True}


@EVERY
def test_the_hint_comes_after_the_bos_and_cannot_smuggle_tokens(family):
    chat = chat_of(family)
    secret = f"def f():\n    return '{chat.eos_text}'"
    parts = with_hint(chat.dialogue([user("a"), sampled(chat, "ok")]), secret)
    text = parts_text(parts)
    assert text.startswith(chat.bos_text + f"In light that the final answer is: {secret}.\n")
    ids, train = chat.encode(parts, chat.fingerprint)
    bare, _ = chat.encode(chat.dialogue([user("a"), sampled(chat, "ok")]), chat.fingerprint)
    kept = 1 if chat.bos_text else 0
    assert ids[:kept] == bare[:kept] and ids[len(ids) - len(bare) + kept :] == bare[kept:]
    added = set(chat.tokenizer.added_tokens_decoder)
    assert [i for i in ids if i in added] == [i for i in bare if i in added]
    assert trained_runs(ids, train) == [sampled(chat, "ok")["token_ids"]]


def test_a_model_without_a_chat_template_is_named_with_the_remedy(tmp_path):
    tokenizer = small_tokenizer("llama3")
    saved = tmp_path / "base"
    tokenizer.save_pretrained(saved)
    (saved / "chat_template.jinja").unlink()
    with pytest.raises(UserError, match="base has no chat template"):
        ChatFormat.from_pretrained(saved)
    with pytest.raises(UserError, match="no tokenizer"):
        ChatFormat.from_pretrained(tmp_path / "nothing")
    (saved / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match="no tokenizer"):
        ChatFormat.from_pretrained(saved)


def test_a_system_message_that_the_template_refuses_is_an_error_with_the_remedy():
    with pytest.raises(UserError, match="System role"):
        chat_of("gemma").prompt([{"role": "system", "content": "s"}, user("a")])


LLAMA_HEADER = "<|start_header_id|>assistant<|end_header_id|>"
RELEASED = (
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nfee?<|eot_id|>"
    f"{LLAMA_HEADER}\n\nWhich?<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n3<|eot_id|>{LLAMA_HEADER}\n\n"
)


@pytest.mark.parametrize("header", [LLAMA_HEADER, LLAMA_HEADER + "\n\n"])
@pytest.mark.parametrize("doubled", ["", "<|begin_of_text|>"])
def test_released_text_gives_the_parts_of_the_same_dialogue(header, doubled):
    chat = chat_of("llama3")
    messages = [user("fee?"), {"role": "assistant", "content": "Which?"}, user("3")]
    for last, finish in (("def f(): 1<|eot_id|>", "stop"), ("def f(): 1", "length")):
        parts = parts_from_text(doubled + RELEASED + last, Markup(header, chat.eos_text, chat.bos_text))
        reply = {"role": "assistant", "content": "def f(): 1", "finish_reason": finish}
        assert parts == chat.dialogue([*messages, reply])


def test_a_reference_with_other_token_ids_or_too_few_is_refused(tiny_chat, tiny_chat_model, tiny_critic, tmp_path):
    tiny_chat.check_vocabulary(tiny_critic, "--ref_pretrain")
    tiny_chat.check_vocabulary(save_tiny_chat_model(tmp_path / "larger", vocab_size=300), "--ref_pretrain")
    other = Path(shutil.copytree(tiny_chat_model, tmp_path / "other"))
    content = json.loads((other / "tokenizer.json").read_text())
    words = content["model"]["vocab"]
    words["a"], words["b"] = words["b"], words["a"]
    (other / "tokenizer.json").write_text(json.dumps(content))
    for model in (str(other), save_tiny_chat_model(tmp_path / "small", vocab_size=259)):
        with pytest.raises(UserError, match=f"--ref_pretrain {model} has another vocabulary than "):
            tiny_chat.check_vocabulary(model, "--ref_pretrain")
