"""Texts laid out in rows: a prompt once, the completions that share it side by side after it.

A row holds one or more blocks, each block one prompt and its completions:

    prompt p p p | completion 1: a a | completion 2: b b b | next block ... | padding

A completion sees its prompt and itself, and positions restart after the prompt. So every token has exactly the hidden
state that it has in a text of its own (attention.py). Rows are filled up to a budget of tokens. Only positions
that predict a trained token are scored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sweet_rl.runs.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class EncodedText:
    """Token ids int32 [L] of a text, and which of them are trained, bool [L]."""

    ids: np.ndarray
    train: np.ndarray

    @classmethod
    def build(cls, ids: Sequence[int], train: Sequence[bool], where: str) -> EncodedText:
        """The text up to its last trained token.

        Raises UserError naming `where`, the example, if no token is trained or the first one is.
        """
        mask = np.asarray(train, dtype=np.bool_)
        trained = np.flatnonzero(mask)
        if len(trained) == 0:
            raise UserError(
                f"{where}: nothing to train on, no token of it is marked train. Mark the agent's parts with "
                '"train": true; for plain strings, check that --response_template is what opens the '
                "agent's turns."
            )
        if trained[0] == 0:
            raise UserError(f"{where}: its first token is to be trained, but nothing precedes it to predict it from.")
        end = trained[-1] + 1
        return cls(np.asarray(ids[:end], dtype=np.int32), mask[:end])

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def prompt_length(self) -> int:
        """Tokens before the first trained one."""
        return int(np.argmax(self.train))

    @cached_property
    def prompt(self) -> bytes:
        """Digest of the first `prompt_length` ids; texts with the same one can share a block."""
        return _digest(self.ids[: self.prompt_length])

    @cached_property
    def targets(self) -> np.ndarray:
        """Positions of the trained tokens, int64 [n]."""
        return np.flatnonzero(self.train)

    @cached_property
    def turns(self) -> np.ndarray:
        """Turn of each trained token, int64 [n] from 0: every contiguous trained stretch is one turn."""
        return np.cumsum(np.diff(self.targets, prepend=-1) > 1) - 1

    @cached_property
    def key(self) -> bytes:
        """Digest of the text: equal for equal texts."""
        return _digest(self.ids, self.train)


def _digest(*arrays: np.ndarray) -> bytes:
    return hashlib.blake2b(b"".join(array.tobytes() for array in arrays), digest_size=16).digest()


@dataclass(frozen=True)
class Block:
    """The place of one prompt and its completions: their row, the first column, and their lengths in tokens."""

    row: int
    start: int
    prompt: int
    completions: tuple[int, ...]

    @property
    def length(self) -> int:
        return self.prompt + sum(self.completions)

    @property
    def longest(self) -> int:
        """Tokens of the longest text."""
        return self.prompt + max(self.completions, default=0)


def group_indices(keys: Iterable[Hashable]) -> list[list[int]]:
    """The indices of equal keys, one list per key, in the order in which the keys first appear."""
    members: dict[Hashable, list[int]] = {}
    for index, key in enumerate(keys):
        members.setdefault(key, []).append(index)
    return list(members.values())


def blocks_of(
    texts: Sequence[EncodedText], share_prompts: bool, row_tokens: int, feed_last: bool = False
) -> list[list[int]]:
    """Group texts by prompt and return their indices; a group is split at `row_tokens`. `feed_last`: see `lay_out`."""
    if not share_prompts:
        return [[i] for i in range(len(texts))]
    blocks = []
    for members in group_indices(text.prompt for text in texts):
        block: list[int] = []
        length = 0
        for i in members:
            completion = len(texts[i]) - (not feed_last) - texts[i].prompt_length
            if block and length + completion > row_tokens:
                blocks.append(block)
                block = []
            if not block:
                length = texts[i].prompt_length
            block.append(i)
            length += completion
        blocks.append(block)
    return blocks


def pack(lengths: Sequence[int], row_tokens: int) -> list[tuple[int, int]]:
    """(row, first column) of each block, by first-fit decreasing, so that short blocks fill what long ones leave.

    Rows have `row_tokens` tokens, or as many as the longest block if that is longer.
    """
    room = max(row_tokens, *lengths)
    used: list[int] = []
    places: list[tuple[int, int]] = [(0, 0)] * len(lengths)
    for number in sorted(range(len(lengths)), key=lambda n: -lengths[n]):
        row = next((r for r, taken in enumerate(used) if taken + lengths[number] <= room), len(used))
        if row == len(used):
            used.append(0)
        places[number] = (row, used[row])
        used[row] += lengths[number]
    return places


def lay_out(
    texts: Sequence[EncodedText], share_prompts: bool = True, row_tokens: int = 2048, feed_last: bool = False
) -> dict[str, Any]:
    """Rows for `completion_logps`.

    Args:
        texts: N texts.
        share_prompts: Whether texts with the same prompt share a block; if not, each text has a row of its own, for
            plain causal attention.
        row_tokens: Number of tokens per row. A block that would pass it is continued in another, its prompt repeated.
        feed_last: Whether the last token of each text goes through the model too; if not, it is only predicted.

    Returns:
        int64 tensors:
          input_ids, position_ids  [R, L]
          blocks                   [R, L], block number, -1 for padding
          completions              [R, L], 0 for a prompt, 1.. for the completions of a block
          rows, columns, targets   [S], the place at which each trained token is predicted, and its id
          text_of_token            [S], the text of each trained token, numbered through the batch
          turn_of_token            [S], its turn, numbered through the batch
          starts                   [N, 3], each text's row, first column, and first column of its completion
        and `layout`, the tuple of Blocks (None without shared prompts). The S trained tokens are in the order of
        `texts`.
    """

    def fed(text: EncodedText) -> int:
        return len(text) - (not feed_last)

    blocks = blocks_of(texts, share_prompts, row_tokens, feed_last)
    lengths = [texts[b[0]].prompt_length + sum(fed(texts[i]) - texts[i].prompt_length for i in b) for b in blocks]
    places = pack(lengths, row_tokens) if share_prompts else [(row, 0) for row in range(len(blocks))]
    width = max(start + length for (_, start), length in zip(places, lengths, strict=True))
    shape = (1 + max(row for row, _ in places), width)
    ids, positions = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    owner, completions = np.full(shape, -1, np.int64), np.zeros(shape, np.int64)
    starts = np.zeros((len(texts), 3), np.int64)
    rows: list = [None] * len(texts)
    columns: list = [None] * len(texts)
    layout = []
    for number, (block, (row, start)) in enumerate(zip(blocks, places, strict=True)):
        prompt = texts[block[0]].prompt_length
        ids[row, start : start + prompt] = texts[block[0]].ids[:prompt]
        positions[row, start : start + prompt] = np.arange(prompt)
        owner[row, start : start + lengths[number]] = number
        at = start + prompt
        for order, i in enumerate(block, 1):
            inputs = texts[i].ids[prompt : fed(texts[i])]
            end = at + len(inputs)
            ids[row, at:end] = inputs
            positions[row, at:end] = np.arange(prompt, prompt + len(inputs))
            completions[row, at:end] = order
            predicting = texts[i].targets - 1
            columns[i] = np.where(predicting < prompt, start + predicting, at + predicting - prompt)
            rows[i] = np.full(len(predicting), row)
            starts[i] = row, start, at
            at = end
        layout.append(Block(row, start, prompt, tuple(fed(texts[i]) - prompt for i in block)))

    turns_before = np.cumsum([0] + [text.turns[-1] + 1 for text in texts])
    arrays = {
        "input_ids": ids,
        "position_ids": positions,
        "blocks": owner,
        "completions": completions,
        "rows": np.concatenate(rows),
        "columns": np.concatenate(columns),
        "targets": np.concatenate([text.ids[text.targets] for text in texts]).astype(np.int64),
        "text_of_token": np.repeat(np.arange(len(texts)), [len(text.targets) for text in texts]),
        "turn_of_token": np.concatenate([text.turns + n for text, n in zip(texts, turns_before, strict=False)]),
        "starts": starts,
    }
    import torch  # here, because steps that only make texts import this file and need no torch

    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return tensors | {"layout": tuple(layout) if share_prompts else None}


def sum_by_text(values: Tensor, text_of_value: Tensor, num_texts: int) -> Tensor:
    """values [S], text_of_value int64 [S] in 0..num_texts-1 -> the sum of each text's values, [num_texts]."""
    return values.new_zeros(num_texts).index_add(0, text_of_value, values)
