"""Rows for TRL: the texts of pairs in the chat templates of ten families, and the messages of dialogues."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sweet_rl.integrations.export import MASK_LOST, NOT_PLAYED, OTHER_TOKENS, export_file
from sweet_rl.method.trajectory_pairs import trajectory_pairs
from sweet_rl.method.turn_pairs import make_pairs
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.texts.released_texts import TextMarkup
from sweet_rl.runs.errors import NothingMade, UserError
from sweet_rl.runs.records import PreferencePair, Task, TurnCandidates
from sweet_rl.runs.step import StepSettings
from tests.support import released_files
from tests.support.chat_families import FAMILIES, small_tokenizer
from tests.support.command_line import read_rows, write_rows
from tests.support.dialogues import graded
from tests.support.released_files import LLAMA

DIALOGUE = [
    {"role": "user", "content": "Two lines,\n\nand a number: 12"},
    {"role": "assistant", "content": "What is it?\n"},
    {"role": "user", "content": "A colour."},
]
REPLIES = ["Red?", "I WANT TO ANSWER:\nblue\n"]


@pytest.fixture(scope="module")
def mini() -> ChatFormat:
    return ChatFormat.from_pretrained("mini")


def exported(tmp_path, records, **settings):
    source, output = write_rows(tmp_path / "in.jsonl", records), tmp_path / "out.jsonl"
    counts = export_file(str(source), str(output), StepSettings(overwrite=True), **settings)
    return read_rows(output), counts


def candidates(chat: ChatFormat) -> TurnCandidates:
    task = Task("A task", "42", {"one": "f(1)"}, "t")
    return TurnCandidates(
        chat.prompt(DIALOGUE), "", REPLIES, id="t-0-1", task=task, turn=1, dialogue=DIALOGUE, judge_scores=[0.5, -1.0],
        judge_result=[0, 1],
    )  # fmt: skip


def turn_pair(chat: ChatFormat) -> PreferencePair:
    (pair,) = make_pairs(candidates(chat), [(0, 1)], chat.eos_text)
    return pair


# The EOS of these small tokenizers is another token than the one that ends a turn, and TRL adds it.
OTHER_EOS = {"llama3", "llama31", "gemma", "gemma3", "phi3"}
# Here the space before a reply is no part of it.
OTHERWISE = OTHER_EOS | {"mistral", "llama2"}


@pytest.mark.parametrize("family", [*FAMILIES, "mini"])
def test_rows_in_trl_are_the_tokens_that_are_trained_here_or_counted(family, tmp_path, mini, monkeypatch):
    """TRL tokenises the prompt, and the prompt with the reply, as plain text; it trains where they begin to differ."""
    chat = mini if family == "mini" else ChatFormat(small_tokenizer(family))
    monkeypatch.setattr(ChatFormat, "from_pretrained", lambda path: chat)
    pair = turn_pair(chat)
    (row,), counts = exported(tmp_path, [pair], tokenizer="mini")
    assert counts == {"rows": 1} | ({OTHER_TOKENS: 1} if family in OTHERWISE else {})
    for side in ("chosen", "rejected"):
        prompt = chat.tokenizer(row["prompt"])["input_ids"]
        whole = chat.tokenizer(row["prompt"] + row[side])["input_ids"]
        ids, train = chat.encode(getattr(pair, side))
        if family not in OTHERWISE - OTHER_EOS:
            assert whole == ids and [place >= len(prompt) for place in range(len(whole))] == train
        assert chat.bos_text == "" or whole.count(chat.tokenizer.bos_token_id) == ids.count(chat.tokenizer.bos_token_id)


def test_pairs_of_dialogues_lose_their_mask_in_trl(tmp_path, mini):
    for hint in (False, True):
        pairs = list(trajectory_pairs(graded(), hint, TextMarkup(mini)))
        rows, counts = exported(tmp_path, pairs)
        assert counts == {"rows": len(pairs), MASK_LOST: len(pairs)}
        for pair, row in zip(pairs, rows, strict=True):
            assert (row["id"], row["task_id"], row["chosen_reward"]) == (pair.id, pair.task_id, 1.0)
            for side in ("chosen", "rejected"):
                text = "".join(part["text"] for part in getattr(pair, side))
                assert row["prompt"] + row[side] == text
                assert row["prompt"].endswith(mini.reply_header + mini.lead)
            assert row["chosen"] != row["rejected"]


def test_a_dialogue_becomes_its_messages_with_its_reward_and_credit(tmp_path):
    played = [
        replace(one, turn_credit=[float(n) for n in range(one.turns)]) for one in graded() if one.ending != "failed"
    ]
    rows, counts = exported(tmp_path, [*played, graded()[-1]])
    assert counts == {"rows": len(played), NOT_PLAYED: 1}
    for one, row in zip(played, rows, strict=True):
        last = max(place for place, message in enumerate(one.dialogue_history) if message["role"] == "assistant")
        assert row["messages"] == [
            {"role": message["role"], "content": message["content"]} for message in one.dialogue_history[: last + 1]
        ]
        assert (row["reward"], row["turn_credit"], row["task_id"]) == (one.reward, one.turn_credit, one.task.id)


def test_what_has_no_rows_is_refused_with_a_remedy(tmp_path, mini):
    for records, words in (
        ([candidates(mini)], "TurnCandidates.*generate_random_pairs"),
        ([graded()[0].task], "Task.*simulate_interactions"),
        ([replace(graded()[0], turn_credit=[0.5])], "turn_credit has 1 numbers for"),
        (released_files.trajectories(LLAMA), "instructions.*train_sft.py"),
        (released_files.trajectory_pairs(LLAMA), "plain strings.*without an export"),
    ):
        with pytest.raises(UserError, match=words):
            exported(tmp_path, records)
    with pytest.raises(NothingMade):
        exported(tmp_path, [graded()[-1]])
