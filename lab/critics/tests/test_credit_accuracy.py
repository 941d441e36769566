import json

import pytest

from lab.critics.credit_accuracy import (
    credit_accuracy,
    judged,
    last_answers,
    pair_outcomes,
)
from lab.critics.measure_mini_credit import credit_markdown
from sweet_rl.dialogues.backend.hidden_tests import CodeGrader
from sweet_rl.dialogues.mini.tasks import family_of, make_tasks, rules_of, source
from sweet_rl.dialogues.mini.worlds import TOPIC_BY_NAME
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, TurnCandidates
from sweet_rl.runs.run import open_run
from tests.support.command_line import call, write_rows
from tests.support.tables import unpadded

MINI = {"family": "parking_fee", "rules": [["allowance", 0, 2, 5], ["rate", 0, 4, 5], ["cap", 0, 30, 5]]}
OUTPUTS = ["Is there a maximum?", "Is it urgent?", "What is the price of one unit?", "I WANT TO ANSWER:\ndef f()"]


def candidates(scores):
    prompt = [
        {"text": "<|user|>Hi<|end|>", "train": False},
        {"text": "What is the price of one unit?<|end|>", "train": True},
    ]
    return TurnCandidates(
        id="1-0-1", task=Task("d", "g", {}, "1", {"mini": MINI}), turn=1, input=prompt, older_output="",
        additional_outputs=OUTPUTS, additional_reference_logprobs=None, judge_scores=scores,
    )  # fmt: skip


def turns(*scores):
    return [judged(candidates(own), {}) for own in scores]


def test_pairs_are_counted_by_hand():
    outcomes = pair_outcomes(["useful", "useless", "repeated", "early"], [1.0, 0.5, 1.0, 2.0])
    assert sorted(outcomes) == [
        ("repeated over early", 0.0),
        ("useful over early", 0.0),
        ("useful over repeated", 0.5),
        ("useful over useless", 1.0),
        ("useless over early", 0.0),
    ]


def test_accuracy_over_records_is_that_of_the_question_pairs():
    result = credit_accuracy([turns([3.0, 1.0, 2.0, 9.0], [1.5, 1.0, 2.0, 0.0])])
    # Useful is the cap; useless the urgency, repeated the price: 2 right, then 1 right of 2.
    questions = result["groups"]["useful over useless question"]
    assert questions["accuracy"] == pytest.approx(3 / 4) and questions["pairs"] == 4
    # the answer is too early: first above all three questions, then below them
    assert result["groups"]["question over early answer"]["accuracy"] == pytest.approx(3 / 6)
    assert result["groups"]["complete answer over question"]["pairs"] == 0
    assert result["smallest"] == pytest.approx(0.5)


ALWAYS = [pytest.approx(0.20655, abs=1e-5), 1.0]  # on one task: 1 / (1 + z^2) with z = 1.96 (Wilson)


def test_seeds_and_tasks_are_both_resampled():
    right, wrong = turns([3.0, 1.0, 2.0, 0.0])[0], turns([1.0, 3.0, 2.0, 9.0])[0]
    same = credit_accuracy([[right, wrong._replace(task="2")]] * 2)["groups"]["question over early answer"]
    assert same["by_seed"] == [0.5, 0.5] and same["interval"] == [0.0, 1.0]  # the two tasks differ
    apart = credit_accuracy([[right], [wrong]])["groups"]["question over early answer"]
    assert apart["by_seed"] == [1.0, 0.0] and apart["interval"] == [0.0, 1.0]  # one task: the two seeds differ
    alone = credit_accuracy([[right]])["groups"]["question over early answer"]
    assert alone["interval"] == ALWAYS and alone["accuracy"] == 1.0


def test_unranked_candidates_are_refused():
    with pytest.raises(UserError, match="judge_scores"):
        judged(candidates(None), {})


def test_an_answer_after_every_rule_was_told_is_complete_if_it_is_right():
    record = candidates([4.0, 3.0, 2.0, 1.0])
    asked = ("Is there a free allowance?", "What is the price of one unit?", "Is there a maximum?")
    record.input = [{"text": f"{question}<|end|>", "train": True} for question in asked]
    record.additional_outputs = ["I WANT TO ANSWER:\ndef f(): 1", "I WANT TO ANSWER:\ndef f(): 2", "Is it urgent?"]
    record.judge_scores = [4.0, 3.0, 2.0]
    known = last_answers(record)
    assert [text for _, text in known] == record.additional_outputs[:2]
    verdicts = {("1", text): text.endswith("1") for _, text in known}
    assert judged(record, verdicts).words == ["complete", "wrong", "useless"]
    outcomes = dict(pair_outcomes(["complete", "wrong", "useless"], [4.0, 3.0, 2.0]))
    assert outcomes == {"complete over useless": 1.0, "complete over wrong": 1.0, "useless over wrong": 0.0}
    early = candidates([1.0, 2.0, 3.0, 4.0])
    assert last_answers(early) == [] and judged(early, {}).words[3] == "early"
    with pytest.raises(KeyError):
        judged(record, {})


def test_the_table_is_sorted_by_the_smallest():
    worse, better = (credit_accuracy([turns(scores)]) for scores in ([3.0, 1.0, 2.0, 9.0], [3.0, 1.0, 2.0, 0.0]))
    text = unpadded(credit_markdown({"worse": worse, "better": better}))
    table = text.splitlines()
    assert table[2] == "| better | 100.0 (20.7 to 100.0) | 100.0 (20.7 to 100.0) | | 100.0 |"
    assert table[3] == "| worse | 100.0 (20.7 to 100.0) | 0.0 (0.0 to 79.3) | | 0.0 |"


def test_an_answer_that_passes_only_some_tests_is_wrong(tmp_path):
    row = make_tasks(1, seed=3)[0]
    task, family, rules = Task.from_dict(row), family_of(row["mini"]), rules_of(row["mini"])
    asked = [TOPIC_BY_NAME[rule.topic].questions[0] for rule in rules]
    codes = [source(family, rules[:i] + rules[i + 1 :]) for i in range(len(rules))]
    with CodeGrader(workers=1) as grader:
        partly = next(code for code in codes if 0 < grader.grade(task, code).reward < 1)

    def turn(number, told, outputs):
        questions = [{"text": f"{question}<|end|>", "train": True} for question in told]
        return TurnCandidates(
            [{"text": "Hi", "train": False}, *questions], "", outputs, id=f"d-{number}", task=task, turn=number,
            judge_scores=[1.0, 0.0],
        ).to_dict()  # fmt: skip

    answers = [f"I WANT TO ANSWER:\n{code}" for code in (row["ground_truth"], partly)]
    path = write_rows(tmp_path / "r.jsonl", [turn(0, [], [asked[0], "Is it urgent?"]), turn(1, asked, answers)])
    done = call("lab.critics.measure_mini_credit", runs=f"c={path}", output_path=tmp_path / "c.json")
    assert done.code == 0, done.err
    found = json.loads((tmp_path / "c.json").read_text())["c"]["candidates"]
    assert (found["complete"], found["wrong"]) == (1, 1)


def test_an_unfinished_file_is_refused(tmp_path):
    with open_run(tmp_path / "ranked.jsonl", {}) as run:
        run.write_missing([{"id": "a", "judge_scores": [1, 2]}])
    done = call("lab.critics.measure_mini_credit", runs=f"a={tmp_path / 'ranked.jsonl'}")
    assert done.code == 2 and "not finished" in done.err
