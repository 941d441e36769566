"""Where every token lies in a row, by hand."""

from __future__ import annotations

import pytest
import torch

from sweet_rl.errors import UserError
from sweet_rl.training.rows import EncodedText, attention_mask, blocks_of, lay_out


def text(ids, train) -> EncodedText:
    return EncodedText.build(ids, [mark == "T" for mark in train], "here")


A = text([5, 6, 7, 8, 9], "..TTT")
B = text([5, 6, 1, 2, 3, 4, 0], "..T.TT.")  # two turns, and glue at its end
C = text([9, 9, 9, 3], "...T")


def test_a_prompt_is_laid_out_once_and_positions_restart_after_it():
    batch = lay_out([A, B, C])
    # A and B share 5 6; A adds 7 8 (9 is only predicted), B adds 1 2 3 (4 is only predicted).
    assert batch["input_ids"].tolist() == [[5, 6, 7, 8, 1, 2, 3], [9, 9, 9, 0, 0, 0, 0]]
    assert batch["position_ids"].tolist() == [[0, 1, 2, 3, 2, 3, 4], [0, 1, 2, 0, 0, 0, 0]]
    assert batch["completions"].tolist() == [[0, 0, 1, 1, 2, 2, 2], [0] * 7]
    assert batch["blocks"].tolist() == [[0] * 7, [1, 1, 1, -1, -1, -1, -1]]


def test_every_trained_token_is_predicted_from_the_position_before_it():
    batch = lay_out([A, B, C])
    assert batch["targets"].tolist() == [7, 8, 9, 1, 3, 4, 3]
    assert batch["rows"].tolist() == [0, 0, 0, 0, 0, 0, 1]
    assert batch["columns"].tolist() == [1, 2, 3, 1, 5, 6, 2]
    assert batch["text"].tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert batch["turn"].tolist() == [0, 0, 0, 1, 2, 2, 3]


def test_short_blocks_fill_the_room_that_long_ones_leave():
    long = text(list(range(1, 12)), "." + "T" * 10)  # 10 inputs
    batch = lay_out([long, A, C])  # 4 and 3 inputs
    assert batch["input_ids"].shape == (2, 10)
    assert batch["blocks"][1].tolist() == [1, 1, 1, 1, 2, 2, 2, -1, -1, -1]


def test_a_block_is_cut_where_a_row_would_be_too_long():
    assert blocks_of([A, B, A, B], True, row_tokens=7) == [[0, 1], [2, 3]]
    assert blocks_of([A, B, C], True, row_tokens=1) == [[0], [1], [2]]
    assert blocks_of([A, B], False, row_tokens=100) == [[0], [1]]


def test_a_completion_sees_its_prompt_and_itself_only():
    batch = lay_out([A, B, C])
    visible = attention_mask(batch["blocks"], batch["completions"], torch.float32)[0, 0] == 0
    assert visible.int().tolist() == [
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


@pytest.mark.parametrize("train, message", [("...", "nothing to train on"), ("T..", "nothing precedes")])
def test_what_cannot_be_trained_names_the_example(train, message):
    with pytest.raises(UserError, match=f"here.*{message}"):
        text([1, 2, 3], train)
