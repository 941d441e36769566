"""Rows for the trainers of others, and back: every kind of record, and the chat templates of ten families."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import parquet

from sweet_rl.integrations.export import (
    EXACT,
    LINE_BREAK,
    MASK_LOST,
    NOT_PLAYED,
    OTHERWISE,
    export_file,
    text_messages,
)
from sweet_rl.integrations.import_rows import import_rows
from sweet_rl.method.trajectory_pairs import trajectory_pairs
from sweet_rl.method.turn_pairs import make_pairs
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.models.texts.parts import TextMarkup
from sweet_rl.runs.errors import NothingMade, UserError
from sweet_rl.runs.records import PreferencePair, Task, Trajectory, TurnCandidates, read_records
from sweet_rl.runs.step import StepSettings
from sweet_rl.training.examples import encode_trajectories
from sweet_rl.training.settings import DataSettings
from tests.support import released_files
from tests.support.chat_families import FAMILIES, small_tokenizer
from tests.support.command_line import read_rows, write_rows
from tests.support.dialogues import graded
from tests.support.released_files import CHATML, LLAMA

STEP = StepSettings()
DIALOGUE = [
    {"role": "user", "content": "Two lines,\n\nand <|im_end|> <|eot_id|> </s> in them."},
    {"role": "assistant", "content": "What is it?\n"},
    {"role": "user", "content": "A colour."},
]
REPLIES = ["Red?", "I WANT TO ANSWER:\nblue\n"]


@pytest.fixture(scope="module")
def mini() -> ChatFormat:
    return ChatFormat.from_pretrained("mini")


def exported(tmp_path, records, to, **settings):
    source, output = write_rows(tmp_path / "in.jsonl", records), tmp_path / f"out.{to}"
    counts = export_file(to, str(source), str(output), replace(STEP, overwrite=True), **settings)
    return (parquet.read_table(output).to_pylist() if to in ("parquet", "verl") else read_rows(output)), counts


def candidates(chat: ChatFormat, **changes) -> TurnCandidates:
    task = Task("A task", "42", {"one": "f(1)"}, "t")
    row = TurnCandidates(
        chat.prompt(DIALOGUE), "", REPLIES, id="t-0-1", task=task, turn=1, dialogue=DIALOGUE, judge_scores=[0.5, -1.0],
        judge_result=[0, 1],
    )  # fmt: skip
    return replace(row, **changes)


def turn_pair(chat: ChatFormat, **changes) -> PreferencePair:
    (pair,) = make_pairs(candidates(chat, **changes), [(0, 1)], chat.eos_text)
    return pair


def said(text: str) -> list[dict]:
    return [{"role": "assistant", "content": text}]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_turn_pair_of_every_family_becomes_the_messages_that_its_text_was_made_of(family, tmp_path):
    chat = ChatFormat(small_tokenizer(family))
    pair = turn_pair(chat)
    messages = text_messages(pair.chosen, "pair")
    own = messages[1:] if messages[0]["role"] == "system" else messages  # the template's own, as of ChatML
    trimmed = [{**one, "content": one["content"].strip()} for one in own]
    expected = [{**one, "content": one["content"].strip()} for one in [*DIALOGUE, *said(REPLIES[0])]]
    assert trimmed == expected
    assert own[1]["content"].strip(" ") == DIALOGUE[1]["content"]  # with the template's space around it


@pytest.mark.parametrize(
    ("family", "found"),
    [("llama3", EXACT), ("llama31", EXACT), ("mistral", OTHERWISE), ("chatml", LINE_BREAK), ("qwen3", OTHERWISE)],
)
def test_what_a_chat_template_writes_otherwise_is_counted(family, found, tmp_path, monkeypatch):
    """Llama 3.1 writes a system block by itself, Mistral a space before a reply; Qwen 3 opens replies otherwise."""
    chat = ChatFormat(small_tokenizer(family))
    monkeypatch.setattr(ChatFormat, "from_pretrained", lambda path: chat)
    plain = [{"role": "user", "content": "Which colour?"}]
    pair = turn_pair(chat, dialogue=plain, input=chat.prompt(plain), additional_outputs=["Red?", "Blue?"])
    (row,), counts = exported(tmp_path, [pair], "trl", tokenizer=family)
    assert counts == {"rows": 1, found: 1}
    if family.startswith("llama"):
        assert row["prompt"] == plain
        assert exported(tmp_path, [turn_pair(chat)], "trl", tokenizer=family)[1] == {"rows": 1, OTHERWISE: 1}  # trimmed


def test_rows_in_trl_are_the_tokens_that_are_trained_here(tmp_path, mini):
    """TRL lays out the prompt with the header of a reply, and prompt and reply without it."""
    pair = turn_pair(mini)
    (row,), counts = exported(tmp_path, [pair], "trl", tokenizer="mini")
    assert counts == {"rows": 1, EXACT: 1}
    for side in ("chosen", "rejected"):
        template = mini.tokenizer.apply_chat_template
        prompt = template(row["prompt"], add_generation_prompt=True, return_dict=False)
        whole = template(row["prompt"] + row[side], return_dict=False)
        ids, train = mini.encode(getattr(pair, side))
        assert whole == ids and [place >= len(prompt) for place in range(len(whole))] == train


def test_pairs_of_dialogues_lose_their_mask_in_trl_and_have_no_rows_in_sharegpt(tmp_path, mini):
    pairs = list(trajectory_pairs(graded(), False, TextMarkup(mini)))
    rows, counts = exported(tmp_path, pairs, "trl", tokenizer="mini")
    assert counts == {"rows": len(pairs), EXACT: len(pairs), MASK_LOST: len(pairs)}
    assert rows[0]["chosen_reward"] == 1.0 and {one["role"] for one in rows[0]["chosen"]} == {"user", "assistant"}
    with pytest.raises(UserError, match="differ in several turns.*--to trl"):
        exported(tmp_path, pairs, "sharegpt")
    with pytest.raises(UserError, match="reference solution stands before"):
        exported(tmp_path, list(trajectory_pairs(graded(), True, TextMarkup(mini))), "trl")


def test_a_dialogue_becomes_a_row_a_turn_or_a_whole_with_its_reward_and_credit(tmp_path):
    played = [
        replace(one, turn_credit=[float(n) for n in range(one.turns)]) for one in graded() if one.ending != "failed"
    ]
    rows, counts = exported(tmp_path, [*played, graded()[-1]], "trl")
    first = played[0]
    assert counts == {"rows": sum(one.turns for one in played), NOT_PLAYED: 1}
    for turn, row in enumerate(rows[: first.turns]):
        place = 2 * turn + 1
        assert [one["content"] for one in row["prompt"] + row["completion"]] == [
            one["content"] for one in first.dialogue_history[: place + 1]
        ]
        assert (row["reward"], row["turn_credit"], row["task_id"]) == (first.reward, float(turn), first.task.id)
    for to, name in (("sft", "messages"), ("sharegpt", "conversations"), ("parquet", "messages"), ("verl", "messages")):
        row = exported(tmp_path, played, to)[0][0]
        assert len(row[name]) == len(first.dialogue_history) and row["turn_credit"] == first.turn_credit
        assert row["reward"] == first.reward
    assert row["reward_model"] == {"style": "rule", "ground_truth": first.task.ground_truth}
    assert row["prompt"] == [{"role": "user", "content": first.dialogue_history[0]["content"]}]
    assert (row["extra_info"]["index"], row["extra_info"]["task_id"]) == (0, first.task.id)
    assert json.loads(row["extra_info"]["test_cases"]) == first.task.test_cases


def test_candidates_and_tasks_become_rows_and_what_has_none_is_refused_with_a_remedy(tmp_path, mini):
    rows, _ = exported(tmp_path, [candidates(mini)], "trl")
    assert [(row["prompt"], row["completion"], row["score"]) for row in rows] == [
        (DIALOGUE, said(REPLIES[0]), 0.5),
        (DIALOGUE, said(REPLIES[1]), -1.0),
    ]
    (row,), _ = exported(tmp_path, [candidates(mini, dialogue=None)], "parquet")
    assert row["prompt"] == DIALOGUE and row["completions"] == REPLIES and row["order"] == [0, 1]
    task = graded()[0].task
    (row,), _ = exported(tmp_path, [task], "verl", task_type="mini")
    assert row["prompt"][0]["content"] != task.problem_description in row["prompt"][0]["content"]
    for records, to, remedy in (
        ([candidates(mini)], "sft", "generate_random_pairs"),
        ([task], "sharegpt", "simulate_interactions"),
        ([turn_pair(mini)], "verl", "trajectories"),
    ):
        with pytest.raises(UserError, match=f"--to {to} makes no rows.*{remedy}"):
            exported(tmp_path, records, to)
    with pytest.raises(NothingMade):
        exported(tmp_path, [graded()[-1]], "verl")


@pytest.mark.parametrize("markup", [LLAMA, CHATML])
def test_released_files_have_the_instructions_that_their_texts_begin_with(tmp_path, markup):
    pairs = [released_files.turn_pairs(markup, kind) for kind in ("no_prompt", "prompt")]
    for made in (released_files.trajectories(markup), released_files.candidates(markup, ranked=True), *pairs):
        row = exported(tmp_path, made, "trl")[0][0]
        assert [one["role"] for one in row["prompt"]] == ["system", "user"]
        assert row["prompt"][1]["content"] == released_files.TASKS[0]["problem_description"]
        assert row.get("completion", row.get("chosen"))[0]["content"].startswith(released_files.QUESTION)


def test_a_credit_of_another_number_of_turns_is_refused(tmp_path):
    with pytest.raises(UserError, match="turn_credit has 1 numbers for"):
        exported(tmp_path, [replace(graded()[0], turn_credit=[0.5])], "trl")


@pytest.mark.parametrize("to", ["trl", "sharegpt", "parquet"])
def test_pairs_come_back_as_they_were(tmp_path, mini, to):
    pairs = [turn_pair(mini), replace(turn_pair(mini), id="other", task_id="t2")]
    exported(tmp_path, pairs, to)
    path = (tmp_path / f"out.{to}").rename(tmp_path / ("rows.parquet" if to in TABLES else "rows.jsonl"))
    import_rows(str(path), str(tmp_path / "back.jsonl"), STEP, "mini")
    back = read_records(tmp_path / "back.jsonl", PreferencePair)
    assert [(one.id, one.task_id, one.chosen, one.rejected) for one in back] == [
        (one.id, one.task_id, one.chosen, one.rejected) for one in pairs
    ]


def test_rows_of_a_domain_that_was_changed_are_not_complete(tmp_path):
    """The prompts of tasks are those of the domain's file."""
    tasks, domain = [graded()[0].task], tmp_path / "own.py"
    text = Path("docs/examples/interview.py").read_text()
    domain.write_text(text)
    source, output = write_rows(tmp_path / "in.jsonl", tasks), str(tmp_path / "out.jsonl")
    export_file("trl", str(source), output, STEP, task_type=str(domain))
    domain.write_text(text + "\n# another prompt\n")
    with pytest.raises(UserError, match=r"own\.py"):
        export_file("trl", str(source), output, STEP, task_type=str(domain))


TABLES = "parquet", "verl"


@pytest.mark.parametrize("to", ["sft", "sharegpt", *TABLES])
def test_dialogues_come_back_with_their_messages_rewards_and_credit(tmp_path, to):
    given = [replace(one, turn_credit=[0.5] * one.turns) for one in graded()[:4]]
    exported(tmp_path, given, to)
    path = (tmp_path / f"out.{to}").rename(tmp_path / ("rows.parquet" if to in TABLES else "rows.jsonl"))
    import_rows(str(path), str(tmp_path / "back.jsonl"), STEP)
    for one, other in zip(given, read_records(tmp_path / "back.jsonl", Trajectory), strict=True):
        texts = [[message["content"] for message in record.dialogue_history] for record in (one, other)]
        assert texts[0] == texts[1] and (one.id, one.reward, one.turn_credit) == (
            other.id,
            other.reward,
            other.turn_credit,
        )
        assert one.task.id == other.task.id and (
            to not in ("parquet", "verl") or one.task.content == other.task.content
        )


def test_a_dialogue_in_sharegpt_is_trained_on_as_it_was_here(tmp_path, mini):
    given = list(graded()[:4])
    exported(tmp_path, given, "sharegpt")
    path = (tmp_path / "out.sharegpt").rename(tmp_path / "rows.jsonl")
    import_rows(str(path), str(tmp_path / "back.jsonl"), STEP)
    back = read_records(tmp_path / "back.jsonl", Trajectory)
    one, other = (encode_trajectories(records, mini, DataSettings()) for records in (given, back))
    for text, same in zip(one.texts, other.texts, strict=True):
        assert text.ids.tolist() == same.ids.tolist() and text.train.tolist() == same.train.tolist()


def imported(tmp_path, rows, tokenizer=None) -> list[dict]:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows))
    import_rows(str(path), str(tmp_path / "back.jsonl"), replace(STEP, overwrite=True), tokenizer)
    return read_rows(tmp_path / "back.jsonl")


def test_rows_of_others_need_no_id_and_a_demonstration_no_reward(tmp_path, capsys):
    spoken = [{"from": "human", "value": "Hello"}, {"from": "gpt", "value": "Hi"}]
    rows = [
        {"conversations": spoken, "system": "Be brief."},
        {"conversations": spoken},
        {"conversations": spoken, "id": 7},
    ]
    first, second, third = imported(tmp_path, rows)
    assert [one["role"] for one in first["dialogue_history"]] == ["system", "user", "assistant"]
    assert first["id"] != second["id"] and third["id"] == "7" and first["reward"] == 1.0
    assert "3 dialogues have no reward" in capsys.readouterr().out


def test_a_pair_without_a_prompt_has_the_messages_that_both_share_as_its_prompt(tmp_path, mini):
    user = {"role": "user", "content": "Which?"}
    (row,) = imported(tmp_path, [{"chosen": [user, *said("a")], "rejected": [user, *said("b")]}], "mini")
    assert [part["text"] for part in row["chosen"] if part["train"]] == [f"a{mini.eos_text}"]
    with pytest.raises(UserError, match="--tokenizer"):
        imported(tmp_path, [{"chosen": [user, *said("a")], "rejected": [user, *said("b")]}])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"messages": [{"role": "tool", "content": "x"}]}, r"row 0, messages\[0\].*tools"),
        ({"messages": "Hello"}, "row 0: 'messages' is text"),
        ({"messages": [{"role": "user", "content": "x"}]}, "no message of the assistant"),
        ({"messages": [*said("a"), *said("b")]}, r"messages\[1\]: a second message"),
        ({"messages": said("a"), "reward": 2}, "row 0: the field 'reward'"),
        ({"prompt": [{"role": "user", "content": "x"}], "chosen": said("a"), "rejected": []}, "'rejected' with its"),
        ([1], "row 0: found"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_by_its_place(tmp_path, row, message):
    with pytest.raises(UserError, match=message):
        imported(tmp_path, [row], "mini")


ASKED = {"role": "user", "content": "q"}


@pytest.mark.parametrize("more", [{"weight": 0}, {"train": False}, {"tool_calls": [{}]}, {"reasoning_content": "hm"}])
def test_what_would_be_trained_or_lost_in_silence_is_refused(more, tmp_path):
    with pytest.raises(UserError, match=r"row 0, messages\[1\]"):
        imported(tmp_path, [{"messages": [ASKED, {"role": "assistant", "content": "a", **more}]}])


def test_a_label_of_kto_is_the_reward(tmp_path):
    said = [ASKED, {"role": "assistant", "content": "a"}]
    rows = [{"messages": said, "label": False}, {"messages": said, "kto_tag": True}, {"messages": said}]
    assert [row["reward"] for row in imported(tmp_path, rows)] == [0.0, 1.0, 1.0]


def test_names_and_contents_that_are_null_or_of_other_types_are_read_or_named(tmp_path):
    rows = [
        {"messages": [{"role": None, "from": "human", "content": None, "value": "q"}, {"from": "gpt", "value": "a"}]}
    ]
    (row,) = imported(tmp_path, rows)
    assert [message["content"] for message in row["dialogue_history"]] == ["q", "a"]
    for wrong in ({"role": ["user"], "content": "q"}, {"role": "user", "content": [{"type": "image", "text": None}]}):
        with pytest.raises(UserError, match="messages"):
            imported(tmp_path, [{"messages": [wrong, {"role": "assistant", "content": "a"}]}])


def test_pairs_and_dialogues_in_one_file_and_a_pair_without_a_side_are_refused(tmp_path):
    said = [ASKED, {"role": "assistant", "content": "a"}]
    pair = {"prompt": [ASKED], "chosen": said[1:], "rejected": [{"role": "assistant", "content": "b"}]}
    for rows in ([{"messages": said}, pair | {"messages": said}], [pair, {"conversations": said}]):
        with pytest.raises(UserError, match="row 1.*Split the file"):
            imported(tmp_path, rows, "mini")
    with pytest.raises(UserError, match="row 0.*'rejected'"):
        imported(tmp_path, [pair | {"conversations": said, "prompt": None, "rejected": []}], "mini")


def test_half_of_a_surrogate_pair_is_refused_for_parquet_and_leaves_no_file(tmp_path):
    trajectory = replace(graded()[0], answer="\ud800")
    with pytest.raises(UserError, match=r"out.parquet: a text has '\\ud800'"):
        exported(tmp_path, [trajectory], "parquet")
    assert {path.name for path in tmp_path.iterdir()} == {"in.jsonl"}
