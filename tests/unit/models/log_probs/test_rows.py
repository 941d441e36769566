"""Where every token lies in a row, by hand."""

from __future__ import annotations

import pytest
import torch

from sweet_rl.models.log_probs.attention import visible
from sweet_rl.models.log_probs.rows import Block, EncodedText, blocks_of, lay_out, pack, sum_by_text
from sweet_rl.runs.errors import UserError


def text(ids, train) -> EncodedText:
    return EncodedText.build(ids, [mark == "T" for mark in train], "here")


A = text([5, 6, 7, 8, 9], "..TTT")
B = text([5, 6, 1, 2, 3, 4, 0], "..T.TT.")  # two turns, and glue at its end
C = text([9, 9, 9, 3], "...T")


def test_a_prompt_is_laid_out_once_and_positions_restart_after_it():
    batch = lay_out([A, B, C], row_tokens=7)
    # A and B share 5 6; A adds 7 8 (9 is only predicted), B adds 1 2 3 (4 is only predicted).
    assert batch["input_ids"].tolist() == [[5, 6, 7, 8, 1, 2, 3], [9, 9, 9, 0, 0, 0, 0]]
    assert batch["position_ids"].tolist() == [[0, 1, 2, 3, 2, 3, 4], [0, 1, 2, 0, 0, 0, 0]]
    assert batch["completions"].tolist() == [[0, 0, 1, 1, 2, 2, 2], [0] * 7]
    assert batch["blocks"].tolist() == [[0] * 7, [1, 1, 1, -1, -1, -1, -1]]


def test_every_trained_token_is_predicted_from_the_position_before_it():
    batch = lay_out([A, B, C], row_tokens=7)
    assert batch["targets"].tolist() == [7, 8, 9, 1, 3, 4, 3]
    assert batch["rows"].tolist() == [0, 0, 0, 0, 0, 0, 1]
    assert batch["columns"].tolist() == [1, 2, 3, 1, 5, 6, 2]
    assert batch["text_of_token"].tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert batch["turn_of_token"].tolist() == [0, 0, 0, 1, 2, 2, 3]


def test_rows_are_filled_up_to_the_budget_of_tokens():
    texts = [text([number, *range(1, 6)], "." + "TTTTT") for number in range(6)]  # 5 inputs each
    assert lay_out(texts, row_tokens=10)["input_ids"].shape == (3, 10)
    assert lay_out(texts, row_tokens=29)["input_ids"].shape == (2, 25)
    assert lay_out(texts, row_tokens=1000)["input_ids"].shape == (1, 30)
    assert pack([4, 9, 3, 2], row_tokens=6) == [(1, 0), (0, 0), (1, 4), (1, 7)]


def test_the_last_token_goes_through_the_model_only_where_it_is_asked_for():
    batch = lay_out([A, B], feed_last=True)
    assert batch["input_ids"].tolist() == [[5, 6, 7, 8, 9, 1, 2, 3, 4]]
    assert batch["starts"].tolist() == [[0, 0, 2], [0, 0, 5]]
    assert batch["layout"] == (Block(0, 0, 2, (3, 4)),)


def test_a_block_is_cut_where_a_row_would_be_too_long():
    assert blocks_of([A, B, A, B], True, row_tokens=7) == [[0, 1], [2, 3]]
    assert blocks_of([A, B, C], True, row_tokens=1) == [[0], [1], [2]]
    assert blocks_of([A, B], False, row_tokens=100) == [[0], [1]]


def test_a_completion_sees_its_prompt_and_itself_only():
    batch = lay_out([A, B, C], row_tokens=7)
    at = torch.arange(7)
    seen = visible(batch["blocks"], batch["completions"])(0, None, at[:, None], at[None, :])
    assert seen.int().tolist() == [
        [1, 0, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, 0],
        [1, 1, 0, 0, 1, 0, 0],
        [1, 1, 0, 0, 1, 1, 0],
        [1, 1, 0, 0, 1, 1, 1],
    ]


def test_what_follows_the_last_trained_token_is_dropped():
    assert B.ids.tolist() == [5, 6, 1, 2, 3, 4] and B.turns.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    "train, message", [("...", "nothing to train on"), ("T.T", "nothing precedes"), ("TT.", "nothing precedes")]
)
def test_what_cannot_be_trained_names_the_example(train, message):
    with pytest.raises(UserError, match=f"here.*{message}"):
        text([1, 2, 3], train)


def test_values_are_summed_by_their_text_and_a_text_without_values_has_0():
    values = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    assert sum_by_text(values, torch.tensor([0, 0, 0, 0, 1, 1]), 3).tolist() == [15, 48, 0]
