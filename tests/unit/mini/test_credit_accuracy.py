import pytest

from sweet_rl.errors import UserError
from sweet_rl.mini.credit_accuracy import credit_accuracy, credit_markdown, pair_outcomes
from sweet_rl.records import Task, TurnCandidates

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


def test_pairs_are_counted_by_hand():
    outcomes = pair_outcomes([("a", "useful", 1.0), ("b", "useless", 0.5), ("c", "repeated", 1.0), ("d", "early", 2.0)])
    assert sorted(outcomes) == [
        ("repeated over early", 0.0),
        ("useful over early", 0.0),
        ("useful over repeated", 0.5),
        ("useful over useless", 1.0),
        ("useless over early", 0.0),
    ]


def test_accuracy_over_records_is_that_of_the_question_pairs():
    result = credit_accuracy([candidates([3.0, 1.0, 2.0, 9.0]), candidates([1.5, 1.0, 2.0, 0.0])])
    # Useful is the cap; useless the urgency, repeated the price: 2 right, then 1 right of 2.
    questions = result["groups"]["useful over useless question"]
    assert questions["accuracy"] == pytest.approx(3 / 4) and questions["pairs"] == 4
    assert questions["by_turn"] == {1: {"accuracy": 0.75, "pairs": 4}}
    # the answer is too early: first above all three questions, then below them
    assert result["groups"]["question over early answer"]["accuracy"] == pytest.approx(3 / 6)
    assert result["groups"]["complete answer over question"]["pairs"] == 0
    assert result["by_kind"]["useful over early"]["accuracy"] == pytest.approx(0.5)


def test_unranked_candidates_are_refused():
    with pytest.raises(UserError, match="judge_scores"):
        credit_accuracy([candidates(None)])


def test_the_table_has_a_part_for_each_decision_and_a_column_for_each_turn():
    table = credit_markdown({"critic": credit_accuracy([candidates([3.0, 1.0, 2.0, 0.0])])})
    assert table.count("turn 2") == 3 and "| critic | 100.0 | 100.0 to 100.0 | 2 | 100.0 |" in table
    assert "| critic |  |  | 0 |  |" in table
