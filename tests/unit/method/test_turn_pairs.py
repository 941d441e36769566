"""Which candidates are paired, and what the pair's texts are."""

from __future__ import annotations

from collections import Counter

import pytest

from sweet_rl.method.turn_pairs import PairSettings, pair_file, turn_pairs
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import PreferencePair, TurnCandidates, read_records
from sweet_rl.runs.step import StepSettings
from tests.support.command_line import write_rows

PROMPT = [
    {"text": "<bos>", "train": False, "bos": True},
    {"text": "task", "train": False},
    {"text": "earlier reply<eos>", "train": True, "token_ids": [7, 8]},
    {"text": "more", "train": False},
]


def candidates(outputs, ranks, **fields) -> TurnCandidates:
    row = {"input": PROMPT, "older_output": "x", "additional_outputs": outputs, "judge_result": ranks}
    return TurnCandidates.from_dict({"id": "r", **row, **fields})


def drawn(record, count=9, seed=0, **how) -> list[str]:
    return [said(pair.chosen) + said(pair.rejected) for pair in turn_pairs(record, count, seed, "<eos>", **how)]


def said(part_list) -> str:
    return part_list[-1]["text"].removesuffix("<eos>")


def test_chosen_is_of_the_top_half_and_rejected_of_the_bottom_half():
    record = candidates(list("abcdef"), [5, 4, 3, 2, 1, 0])
    for seed in range(20):
        pairs = turn_pairs(record, 4, seed, "<eos>")
        assert len(pairs) == 4
        assert {said(p.chosen) for p in pairs} <= set("fed") and {said(p.rejected) for p in pairs} <= set("cba")
        assert len({(said(p.chosen), said(p.rejected)) for p in pairs}) == 4


def test_every_pair_is_as_likely_as_another():
    record = candidates(list("abcd"), [0, 1, 2, 3])
    counts = Counter(drawn(record, 1, seed)[0] for seed in range(400))
    assert set(counts) == {"ac", "ad", "bc", "bd"} and min(counts.values()) > 60


def test_equal_texts_and_the_middle_one_of_an_odd_number_are_never_paired():
    assert drawn(candidates(["a"] * 6, [0, 1, 2, 3, 4, 5])) == []
    assert set(drawn(candidates(["a", "b", "a", "b"], [0, 1, 2, 3]))) == {"ab", "ba"}
    assert drawn(candidates(list("abc"), [0, 1, 2])) == ["ac"]


def test_the_choice_depends_on_the_seed_and_the_turn_only():
    record, other = (candidates(list("abcdefgh"), list(range(8)), id=name) for name in ("r", "another turn"))
    assert drawn(record, 4, 1) == drawn(record, 4, 1) != drawn(record, 4, 2)
    assert drawn(record, 4, 1) != drawn(other, 4, 1)


def test_only_the_candidate_is_trained_and_eos_is_there_only_if_it_was_produced():
    record = candidates(
        ["a", "b"], [0, 1], additional_finish_reasons=["stop", "length"], additional_token_ids=[[1, 2], [3]],
        tokenizer="print",
    )  # fmt: skip
    (pair,) = turn_pairs(record, 4, 0, "<eos>")
    assert [part["train"] for part in pair.chosen] == [False, False, False, False, True]
    assert pair.chosen[2]["token_ids"] == [7, 8] and record.input[2]["train"] is True
    assert pair.chosen[-1] == {"text": "a<eos>", "train": True, "token_ids": [1, 2]}
    assert pair.rejected[-1] == {"text": "b", "train": True, "token_ids": [3]}
    assert pair.tokenizer == "print" and pair.id == "r-0"


def test_released_strings_become_parts():
    record = candidates(["a", "b<eos>"], [0, 1], input="<bos>task<header>")
    (pair,) = turn_pairs(record, 4, 0, "<eos>")
    assert pair.chosen == [{"text": "<bos>task<header>", "train": False}, {"text": "a<eos>", "train": True}]
    assert pair.rejected[-1]["text"] == "b<eos>"


def test_what_ranking_noted_is_the_eos_and_without_it_the_user_is_asked():
    assert turn_pairs(candidates(["a", "b"], [0, 1], eos_text="<end>"))[0].chosen[-1]["text"] == "a<end>"
    with pytest.raises(UserError, match="--eos_text"):
        turn_pairs(candidates(["a", "b"], [0, 1]))
    with pytest.raises(UserError, match="rank_best_of_n"):
        turn_pairs(candidates(["a", "b"], None), eos_text="<eos>")


def test_the_eos_of_a_released_prompt_is_that_of_its_markup():
    prompt = "<|begin_of_text|>task<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    (pair,) = turn_pairs(candidates(["a", "b"], [0.1, 0.2], input=prompt), 4)
    assert (pair.chosen[-1]["text"], pair.rejected[-1]["text"]) == ("b<|eot_id|>", "a<|eot_id|>")
    with pytest.raises(UserError, match="--eos_text"):
        turn_pairs(candidates(["a", "b"], [0, 1], input="[INST] task [/INST]"), 4)


def test_pairs_to_imitate_are_different_candidates_over_themselves():
    record = candidates(["a", "b", "a", "c"], None)
    assert sorted(drawn(record, rule="same")) == ["aa", "bb", "cc"] and len(drawn(record, 2, rule="same")) == 2
    assert {drawn(record, 1, seed, rule="same")[0] for seed in range(20)} == {"aa", "bb", "cc"}
    cut = candidates(["", "a", ""], None, additional_finish_reasons=["length", "stop", "stop"])
    assert sorted(drawn(cut, rule="same")) == ["", "aa"]
    cut = candidates(["", "a"], None, additional_finish_reasons=["length", "stop"])
    assert drawn(cut, rule="same") == ["aa"], "nothing was said"


def test_pairs_by_a_gap_differ_by_more_than_the_spread_of_their_turn_and_of_the_median_turn():
    record = candidates(list("abcda"), [3, 0, 4, 1, 2], judge_scores=[2.0, 1.0, 0.0, 5.0, 2.0])
    # of the texts a 2, b 1, c 0, d 5: mean 2, deviation 1.87
    assert set(drawn(record, rule="gap")) == {"da", "db", "dc", "ac"} and len(drawn(record, 2, rule="gap")) == 2
    assert sorted(drawn(record, rule="gap", typical=3.5)) == ["db", "dc"]
    assert not drawn(record, rule="gap", typical=5.0), "a difference has to be larger"
    equal = candidates(list("abc"), [0, 1, 2], judge_scores=[1.0, 1.0, 1.0])
    assert not drawn(equal, rule="gap"), "where nothing differs, half over half would still pair"


def test_the_typical_gap_of_a_file_is_that_of_its_median_turn(tmp_path):
    rows = [
        candidates(list("ab"), [0, 1], id=f"r{gap}", judge_scores=[float(gap), 0.0], eos_text="<eos>").to_dict()
        for gap in (1, 4, 6)  # deviations 0.5, 2 and 3; a pair of the first turn needs more than 2
    ]
    write_rows(tmp_path / "ranked.jsonl", rows)
    pair_file(PairSettings(rule="gap"), str(tmp_path / "ranked.jsonl"), str(tmp_path / "pairs.jsonl"), StepSettings())
    found = [
        (one.id, said(one.chosen), said(one.rejected)) for one in read_records(tmp_path / "pairs.jsonl", PreferencePair)
    ]
    assert found == [("r4-0", "a", "b"), ("r6-0", "a", "b")]
    with pytest.raises(UserError, match="--get_sft"):
        PairSettings(rule="gap", get_sft=True)


def test_candidates_of_equal_score_are_never_paired_and_a_turn_still_gives_its_pairs_of_unequal_score():
    # one worse than seven equal ones: the three of these in the bottom half are not worse than the top half
    scores = [-8.0, *[-3.0] * 7]
    record = candidates(list("abcdefgh"), [1, 2, 3, 4, 5, 6, 7, 0], judge_scores=scores)
    assert set(drawn(record, 16)) == {"ba", "ca", "da", "ea"}
    for seed in range(20):
        assert len(turn_pairs(record, 4, seed, "<eos>")) == 4


def test_a_turn_whose_scores_are_all_equal_gives_no_pair_and_is_counted(tmp_path):
    rows = [
        TurnCandidates("o", "", ["a", "b", "c"], id=name, judge_scores=scores, judge_result=[2, 0, 1], eos_text="<e>")
        for name, scores in (("equal", [0.0] * 3), ("differ", [0.0, 0.0, 1.0]))
    ]
    assert turn_pairs(rows[0]) == [] and len(turn_pairs(rows[1])) == 1
    source = write_rows(tmp_path / "ranked.jsonl", [row.to_dict() for row in rows])
    summary = pair_file(PairSettings(), str(source), str(tmp_path / "pairs.jsonl"), StepSettings())
    assert (summary["pairs"], summary["turns_with_equal_scores"]) == (1, 1)
    write_rows(source, [rows[0].to_dict()])
    with pytest.raises(UserError, match="In 1 of 1 turns .* the same score.*--learning_rate"):
        pair_file(PairSettings(), str(source), str(tmp_path / "none.jsonl"), StepSettings())
