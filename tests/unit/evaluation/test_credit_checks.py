"""Checks of credit: pairs for a person's labels, and how often scores agree with them, by hand-computed figures."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from sweet_rl.evaluation import credit_checks
from sweet_rl.evaluation.credit_checks import (
    CheckSettings,
    check_credit,
    draw_pairs,
    note_on,
    read_labels,
    report,
    with_other_solutions,
    write_pairs,
)
from sweet_rl.method.ranking import ranked
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, TurnCandidates, read_records
from sweet_rl.runs.step import StepSettings
from tests.support.command_line import write_rows


def turn(task: str, texts: list[str], rewards: list[float | None] | None = None, number: int = 0) -> TurnCandidates:
    return TurnCandidates(
        input="o", older_output="x", additional_outputs=texts, id=f"{task}-{number}",
        task=Task("a wish", f"solution of {task}", id=task), answer_rewards=rewards,
        dialogue=[{"role": "user", "content": "=1+1"}],
    )  # fmt: skip


STOPS = ["stop"] * 3
RECORDS = [turn("t", ["a", "b", "c"], [1.0, None, 0.0]), turn("u", ["d", "d ", "=e"]), turn("v", ["f", "f"])]


def numbered(scores: dict[str, list[float]]) -> dict[str, dict[int, float]]:
    return {name: dict(enumerate(own)) for name, own in scores.items()}


def labelled(path, **better: str):
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([rows[0], *[[*row[:5], better.get(row[0][0], "")] for row in rows[1:]]])


def test_a_pair_has_different_texts_and_a_file_with_a_persons_labels_is_kept(tmp_path):
    pairs = draw_pairs(RECORDS, 100, seed=0)
    assert {pair["pair"][:3] for pair in pairs} == {"t-0", "u-0"}  # the texts of the third turn are equal
    assert all(pair["A"].strip() != pair["B"].strip() for pair in pairs)
    assert len(draw_pairs(RECORDS, 1, seed=0)) == 1
    path = tmp_path / "new" / "labels.csv"
    write_pairs(path, pairs)
    with path.open(newline="") as file:
        rows = {row["pair"].partition("-")[0]: row for row in csv.DictReader(file)}
    assert {row["solution"] for row in rows.values()} == {f"solution of {name}" for name in rows}
    labelled(path, t="a", u="=")
    before = path.read_text()
    write_pairs(path, pairs)
    assert path.read_text() == before
    found = read_labels(path, RECORDS)
    assert {key[0]: label for key, label in found.items()} == {"t-0": "A", "u-0": "="}
    said = note_on(RECORDS, found, path)
    assert said.startswith("2 pairs are labelled, 1 of them (50 %) as of equal worth. ") and "1 tasks" in said
    assert "labels.csv" in note_on(RECORDS, {}, path)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("pair,better\nt-0:0:1,C\n", "line 2.*'C'"),
        ("pair,better\nt-0:0:9,A\n", "line 2.*no pair"),
        ("pair,better\nw-0:0:1,A\n", "line 2.*no pair"),
        ("pair,better\nt-0:\u00b2:1,A\n", "line 2.*no pair"),
        ("pair;better\nt-0:0:1;A\n", "line 2.*no pair"),
    ],
)
def test_a_wrong_label_is_named_with_its_line(text, named, tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=named):
        read_labels(path, RECORDS)


def test_a_person_sees_the_reward_of_an_answer():
    shown = {draw_pairs(RECORDS[:1], 1, seed)[0][column] for seed in range(9) for column in "AB"}
    assert shown == {"a\n\n[an answer; its reward: 1]", "b", "c\n\n[an answer; its reward: 0]"}


def test_ids_texts_and_files_of_any_kind_come_back_as_they_were_or_are_named(tmp_path):
    records = [turn("cmd", ["=x", "\ud800"]), turn("long", ["y" * 200_000, "z"])]
    path = tmp_path / "labels.csv"
    write_pairs(path, draw_pairs(records, 100, seed=0))
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([rows[0], *[[*row[:5], "b"] for row in rows[1:]]])
    assert {key[0]: label for key, label in read_labels(path, records).items()} == {"cmd-0": "B", "long-0": "B"}


def test_agreement_is_the_share_of_pairs_in_the_labels_order_and_of_right_answers_above_others():
    scores = {"way": numbered({"t-0": [2.0, 3.0, 2.0], "u-0": [0.0, 0.0, 1.0], "v-0": [0.0, 0.0]})}
    labels = {("t-0", 0, 1): "A", ("t-0", 1, 2): "A", ("u-0", 0, 2): "B", ("u-0", 0, 1): "="}
    heading, row = report(RECORDS, scores, labels).cells
    assert heading[1:4:2] == ["as labelled %", "right answer above %"]
    # Tasks: t one of two, u one of one. The right answer a: below b, level with c.
    assert row[1] == "75.0" and row[3] == "25.0"
    assert report(RECORDS, scores, {}).cells[1][1:3] == ["", ""]


def test_what_the_solution_and_a_critic_add_is_measured_on_the_same_pairs():
    scores = {
        "PMI, sum": numbered({"t-0": [2.0, 1.0, 0.0], "u-0": [0.0, 0.0, 1.0], "v-0": [0.0, 0.0]}),
        "PMI, sum, c of other tasks": numbered({"t-0": [1.0, 2.0, 0.0], "u-0": [1.0, 0.0, 0.0], "v-0": [0.0, 0.0]}),
        "critic, reference seed": numbered({"t-0": [0.0, 1.0, 2.0], "u-0": [0.0, 0.0, 1.0], "v-0": [0.0, 0.0]}),
    }
    labels = {("t-0", 0, 1): "A", ("t-0", 0, 2): "A", ("u-0", 0, 2): "B"}
    rows = {row[0]: row[1:] for row in report(RECORDS, scores, labels).cells[1:]}
    assert [rows[name][0] for name in scores] == ["100.0", "25.0", "50.0"]
    # Task t: both right, one of them with other c, none by the critic; task u: right, wrong, right.
    assert rows["own c - other c"][0] == "+75.0"
    assert rows["critic seed - PMI"][0] == "-50.0"
    assert rows["critic seed - PMI"][2] == "-100.0"  # the right answer a is above b and c by PMI only


def test_candidates_that_were_cut_before_their_first_token_keep_the_numbers_of_the_others(tmp_path, monkeypatch):
    cut = replace(
        turn("t", ["", "a", "bbb", "cc"], [None, None, 1.0, 0.0]), additional_finish_reasons=["length", *STOPS]
    )
    silent = replace(turn("s", ["", ""], [None, None]), additional_finish_reasons=["length", "length"])
    drawn = [pair for seed in range(30) for pair in draw_pairs([cut, silent], 9, seed)]
    assert {number for pair in drawn for number in pair["pair"].split(":")[1:]} == {"1", "2", "3"}
    source = write_rows(tmp_path / "candidates.jsonl", [cut.to_dict(), silent.to_dict()])

    def rank_by_length(critic, read, written, step):
        (record,) = (one.without_empty() for one in read_records(read, TurnCandidates) if one.with_tokens())
        scores = [float(len(text)) for text in record.additional_outputs]
        write_rows(Path(written), [ranked(record, scores, None).to_dict()])

    monkeypatch.setattr(credit_checks, "rank_file", rank_by_length)
    labels = tmp_path / "labels.csv"
    labels.write_text("pair,better\nt-0:1:2,B\nt-0:3:1,A\n")
    check_credit(CheckSettings("mini"), str(source), str(tmp_path), StepSettings())
    row = (tmp_path / "checks.md").read_text().splitlines()[2].split("|")
    assert [row[1].strip(), row[2].strip(), row[4].strip()] == ["PMI, sum", "100.0", "100.0"]
    labels.write_text("pair,better\nt-0:0:1,B\n")
    with pytest.raises(UserError, match="line 2.*is empty"):
        read_labels(labels, [cut, silent])


def test_each_task_gets_the_solution_of_another_in_all_of_its_turns():
    records = [*RECORDS, turn("t", ["g"], number=1)]
    found = with_other_solutions(records, 0, "c.jsonl")
    given = {record.id: record.task.ground_truth for record in found}
    assert given["t-0"] == given["t-1"] and len(set(given.values())) == 3
    assert all(given[record.id] != record.task.ground_truth for record in records)
    with pytest.raises(UserError, match="same solution"):
        with_other_solutions(RECORDS[:1], 0, "c.jsonl")
