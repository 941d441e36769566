"""Rows that others publish are read as they are meant, or refused; nothing of them is lost or trained twice."""

from __future__ import annotations

import json

import pytest

from sweet_rl.integrations.import_rows import holds_rows, import_rows
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Trajectory, read_records
from sweet_rl.runs.step import StepSettings
from tests.support.command_line import read_rows, write_rows


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def said(text: str) -> dict:
    return {"role": "assistant", "content": text}


def system(text: str) -> dict:
    return {"role": "system", "content": text}


def imported(tmp_path, row: dict, tokenizer: str | None = "mini") -> dict:
    path = write_rows(tmp_path / "rows.jsonl", [row])
    import_rows(str(path), str(tmp_path / "back.jsonl"), StepSettings(overwrite=True), tokenizer)
    (record,) = read_rows(tmp_path / "back.jsonl")
    return record


def texts(record: dict) -> list[list[tuple[str, bool]]]:
    return [[(part["text"], part["train"]) for part in record[side]] for side in ("chosen", "rejected")]


APART = {"prompt": [user("q")], "chosen": [said("a")], "rejected": [said("b")]}
WHOLE = {"chosen": [user("q"), said("a")], "rejected": [user("q"), said("b")]}
LONG = [user("q"), said("which?"), user("the red one")]


@pytest.mark.parametrize(
    "row", [WHOLE, WHOLE | {"prompt": "q"}, WHOLE | {"prompt": [user("q")]}, APART | {"prompt": "q"}]
)
def test_a_prompt_stands_once_whichever_column_holds_it(row, tmp_path):
    assert texts(imported(tmp_path, row)) == texts(imported(tmp_path, APART))


def test_of_whole_dialogues_behind_their_first_message_all_that_differs_is_trained(tmp_path):
    row = {"prompt": "q", "chosen": [*LONG, said("a")], "rejected": [*LONG, said("b")]}
    trained = [[text for text, train in side if train] for side in texts(imported(tmp_path, row))]
    assert [len(side) for side in trained] == [1, 1] and trained[0][0].startswith("a")


def test_a_column_for_the_system_message_opens_every_text(tmp_path):
    expected = texts(imported(tmp_path, APART | {"prompt": [system("Be brief."), user("q")]}))
    opened = WHOLE | {side: [system("Be brief."), *WHOLE[side]] for side in WHOLE}
    for row in (APART, WHOLE, WHOLE | {"prompt": "q"}, opened, opened | {"prompt": "q"}):
        assert texts(imported(tmp_path, row | {"system": "Be brief."})) == expected
    for prompt in ([system("Be brief."), user("q")], [system("Be brief.")]):
        assert texts(imported(tmp_path, WHOLE | {"prompt": prompt})) == expected
        assert texts(imported(tmp_path, opened | {"prompt": prompt})) == expected


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (APART | {"prompt": [system("x"), user("q")], "system": "y"}, "'system' is another"),
        (APART | {"system": ["y"]}, "'system' is a list"),
        (WHOLE | {"prompt": "something else"}, "must both begin"),
        (WHOLE | {"prompt": [user("something else")]}, "must both begin"),
        (WHOLE | {"prompt": "q", "rejected": [said("b")]}, "must both begin"),
        (APART | {"prompt": LONG[:2]}, "must both begin"),
        (
            APART | {"prompt": [system("x"), user("q")], "chosen": [system("y"), user("q"), said("a")]},
            "must both begin",
        ),
        ({"prompt": [user("q")], "completion": [said("a"), user("r")]}, "'completion' must be one message"),
        ({"prompt": LONG, "completion": [said("a")]}, "'prompt' has messages of the assistant"),
        ({"instruction": "q", "output": "a"}, "fields found: 'instruction', 'output'"),
        ({"messages": [user("q"), said("a") | {"thinking": "hm"}]}, "'thinking' beside its text"),
        ({"messages": [user("q"), said("a") | {"reasoning": "hm"}]}, "'reasoning' beside its text"),
    ],
)
def test_what_would_be_doubled_lost_or_guessed_is_refused(row, message, tmp_path):
    with pytest.raises(UserError, match=f"line 1.*{message}"):
        imported(tmp_path, row)


@pytest.mark.parametrize("label", [{}, {"label": False}])
def test_a_completion_behind_its_prompt_is_a_dialogue(label, tmp_path):
    row = {"prompt": [user("q")], "completion": [said("a")], "system": "Be brief.", **label}
    record = imported(tmp_path, row, None)
    assert record["dialogue_history"] == [system("Be brief."), user("q"), said("a")]
    assert record["reward"] == (0.0 if label else 1.0)


def test_dialogues_that_open_alike_have_one_task_only_if_their_solutions_are_one(tmp_path):
    source, back = tmp_path / "rows.jsonl", tmp_path / "back.jsonl"
    rows = [{"messages": [user("help"), said(text)], "ground_truth": truth} for text, truth in ("ax", "by", "cx")]
    write_rows(source, rows)
    import_rows(str(source), str(back), StepSettings())
    ids = [dialogue.task.id for dialogue in read_records(back, Trajectory)]
    assert ids[0] == ids[2] != ids[1]


def test_a_json_file_may_hold_an_array_or_lines(tmp_path):
    back = tmp_path / "back.jsonl"
    rows = [{"messages": [user("q"), said(text)]} for text in "ab"]
    for number, text in enumerate([json.dumps(rows), "\n".join(map(json.dumps, rows)), "\ufeff " + json.dumps(rows)]):
        path = tmp_path / f"{number}.json"
        path.write_text(text, encoding="utf-8")
        assert holds_rows(path)
        import_rows(str(path), str(back), StepSettings(overwrite=True))
        assert [row["dialogue_history"][-1]["content"] for row in read_rows(back)] == ["a", "b"]
    log = tmp_path / "log.json"  # of inspect_ai
    log.write_text(json.dumps({"version": 2, "status": "success"}, indent=2))
    assert not holds_rows(log)
