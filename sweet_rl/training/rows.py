"""Texts laid out in rows: a prompt once, the completions that share it side by side after it.

A row holds one or more blocks, each block one prompt and its completions:

    prompt p p p | completion 1: a a | completion 2: b b b | next block ... | padding

A completion sees its prompt and itself, positions restart after the prompt, and so every token gets
exactly the hidden state it has in a text of its own. Only positions that predict a trained token
are scored; what follows the last of them is never fed to the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from sweet_rl.errors import UserError


@dataclass(frozen=True, eq=False)
class EncodedText:
    """Token ids [L] of a text, and which of them are trained, bool [L]."""

    ids: np.ndarray
    train: np.ndarray

    @classmethod
    def build(cls, ids: Sequence[int], train: Sequence[bool], where: str) -> EncodedText:
        """Checks that there is something to train on, and something before it to predict it from.

        Raises UserError naming `where`, the example. What follows the last trained token is dropped.
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
            raise UserError(
                f"{where}: its first token is to be trained, but nothing precedes it to predict it from."
            )
        end = trained[-1] + 1
        return cls(np.asarray(ids[:end], dtype=np.int64), mask[:end])

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def prompt_length(self) -> int:
        """Tokens before the first trained one."""
        return int(np.argmax(self.train))

    @cached_property
    def prompt(self) -> bytes:
        """What texts must have in common to share a block."""
        return self.ids[: self.prompt_length].tobytes()

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
        """Equal for equal texts."""
        return self.ids.tobytes() + self.train.tobytes()


def blocks_of(texts: Sequence[EncodedText], share_prompts: bool, row_tokens: int) -> list[list[int]]:
    """Indices of texts that share a prompt, cut where a block would pass `row_tokens`."""
    if not share_prompts:
        return [[i] for i in range(len(texts))]
    by_prompt: dict[bytes, list[int]] = {}
    for i, text in enumerate(texts):
        by_prompt.setdefault(text.prompt, []).append(i)
    blocks = []
    for members in by_prompt.values():
        block: list[int] = []
        length = 0
        for i in members:
            completion = len(texts[i]) - 1 - texts[i].prompt_length
            if block and length + completion > row_tokens:
                blocks.append(block)
                block = []
            if not block:
                length = texts[i].prompt_length
            block.append(i)
            length += completion
        blocks.append(block)
    return blocks


def lay_out(
    texts: Sequence[EncodedText], share_prompts: bool = True, row_tokens: int = 2048
) -> dict[str, Tensor]:
    """Rows for `completion_logps`; a block that would pass `row_tokens` is continued in another, its prompt
    repeated.

    Returns int64 tensors:
      input_ids, position_ids  [R, L]
      blocks                   [R, L] block number, -1 for padding
      completions              [R, L] 0 for a prompt, 1.. for the completions of a block
                               (absent with share_prompts=False: one text a row, plain causal attention)
      rows, columns, targets   [S] where each trained token is predicted, and its id
      text, turn               [S] whose token it is, and of which turn (numbered through the batch)
    The S trained tokens are in the order of `texts`.
    """
    blocks = blocks_of(texts, share_prompts, row_tokens)
    lengths = [
        texts[b[0]].prompt_length + sum(len(texts[i]) - 1 - texts[i].prompt_length for i in b) for b in blocks
    ]
    width = max(lengths)
    free: list[int] = []  # first-fit decreasing: short blocks fill what long ones leave
    place = {}
    for number in sorted(range(len(blocks)), key=lambda n: -lengths[n]):
        row = next((r for r, room in enumerate(free) if share_prompts and room >= lengths[number]), len(free))
        if row == len(free):
            free.append(width)
        place[number] = (row, width - free[row])
        free[row] -= lengths[number]

    shape = (len(free), width)
    ids, positions = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    owner, completions = np.full(shape, -1, np.int64), np.zeros(shape, np.int64)
    rows: list = [None] * len(texts)
    columns: list = [None] * len(texts)
    for number, block in enumerate(blocks):
        row, start = place[number]
        prompt = texts[block[0]].prompt_length
        ids[row, start : start + prompt] = texts[block[0]].ids[:prompt]
        positions[row, start : start + prompt] = np.arange(prompt)
        owner[row, start : start + lengths[number]] = number
        at = start + prompt
        for order, i in enumerate(block, 1):
            inputs = texts[i].ids[prompt:-1]  # the last token is only predicted
            end = at + len(inputs)
            ids[row, at:end] = inputs
            positions[row, at:end] = np.arange(prompt, prompt + len(inputs))
            completions[row, at:end] = order
            predicting = texts[i].targets - 1
            columns[i] = np.where(predicting < prompt, start + predicting, at + predicting - prompt)
            rows[i] = np.full(len(predicting), row)
            at = end

    turns_before = np.cumsum([0] + [text.turns[-1] + 1 for text in texts])
    batch = {
        "input_ids": ids,
        "position_ids": positions,
        "blocks": owner,
        "rows": np.concatenate(rows),
        "columns": np.concatenate(columns),
        "targets": np.concatenate([text.ids[text.targets] for text in texts]),
        "text": np.repeat(np.arange(len(texts)), [len(text.targets) for text in texts]),
        "turn": np.concatenate(
            [text.turns + before for text, before in zip(texts, turns_before, strict=False)]
        ),
    }
    if share_prompts:
        batch["completions"] = completions
    return {name: torch.from_numpy(array) for name, array in batch.items()}


def attention_mask(blocks: Tensor, completions: Tensor, dtype: torch.dtype) -> Tensor:
    """Additive mask [R, 1, L, L]: 0 where row token q may see token k, the dtype's minimum elsewhere.

    q sees k iff k is not later, of the same block, and of the prompt or of q's own completion. Padding
    sees padding, so that no softmax is empty.
    """
    length = blocks.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool, device=blocks.device).tril()
    same_block = blocks[:, :, None] == blocks[:, None, :]
    visible = (completions[:, None, :] == 0) | (completions[:, :, None] == completions[:, None, :])
    mask = torch.zeros(blocks.shape[0], 1, length, length, dtype=dtype, device=blocks.device)
    return mask.masked_fill_(~(causal & same_block & visible)[:, None], torch.finfo(dtype).min)
