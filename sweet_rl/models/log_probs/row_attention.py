"""What each token of the rows may see, as the masks that the ways of `attend` take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from sweet_rl.models.log_probs.rows import Block

BLOCK = 128  # tokens of a block of FlexAttention
MASK_ELEMENTS = 2**26  # pairs (q, k) of which the visibility is computed at a time, on the way to a block mask


@dataclass
class RowAttention:
    """What a token of the rows may see, passed through the model to `attend`.

    The masks are computed once per sliding window, for all layers.

    Attributes:
        layout: Blocks of the rows.
        blocks: Block of each token, int64 [R, L]; see `rows.lay_out`.
        completions: Completion of each token, int64 [R, L].
        positions: Position of each token, int64 [R, L].
    """

    layout: tuple[Block, ...]
    blocks: Tensor
    completions: Tensor
    positions: Tensor
    _made: dict = field(default_factory=dict)

    def to(self, device: torch.device | str | int, **_) -> RowAttention:
        """The same on another device, made once; accelerate calls it in a model that lies on several GPUs."""
        device = torch.device(device)
        if device == self.blocks.device:
            return self
        if device not in self._made:
            self._made[device] = RowAttention(
                self.layout, self.blocks.to(device), self.completions.to(device), self.positions.to(device)
            )
        return self._made[device]

    def padded(self) -> RowAttention:
        """The same with rows of a multiple of BLOCK tokens, made once."""
        extra = -self.blocks.shape[1] % BLOCK
        if extra and "padded" not in self._made:
            blocks = F.pad(self.blocks, (0, extra), value=-1)
            completions, positions = (F.pad(x, (0, extra)) for x in (self.completions, self.positions))
            self._made["padded"] = RowAttention(self.layout, blocks, completions, positions)
        return self._made["padded"] if extra else self

    def longest(self) -> int:
        """Tokens of the longest text."""
        return max(block.longest for block in self.layout)

    def visible(self, window: int | None = None) -> Tensor:
        """Bool [R, 1, L, L]: whether token q may see token k. Padding sees padding: no softmax is empty."""
        if ("visible", window) not in self._made:
            length = self.blocks.shape[1]
            mask_mod = self.mask_mod(window)
            row = torch.arange(len(self.blocks), device=self.blocks.device)[:, None, None]
            at = torch.arange(length, device=self.blocks.device)
            self._made["visible", window] = mask_mod(row, None, at[:, None], at[None, :])[:, None]
        return self._made["visible", window]

    def mask_mod(self, window: int | None = None) -> Callable[..., Tensor]:
        """The same as FlexAttention's function of (row, head, q, k)."""
        blocks, completions, positions = self.blocks, self.completions, self.positions

        def mask(row, head, q, k):
            own = (completions[row, k] == 0) | (completions[row, k] == completions[row, q])
            seen = (k <= q) & (blocks[row, k] == blocks[row, q]) & own
            return seen if window is None else seen & (positions[row, q] - positions[row, k] < window)

        return mask

    def block_mask(self, window: int | None = None):
        """FlexAttention's BlockMask of `mask_mod`.

        Equal to that of `create_block_mask`, which holds the whole mask in memory; here it is MASK_ELEMENTS at a time.
        """
        from torch.nn.attention.flex_attention import BlockMask

        if ("block", window) not in self._made:
            length = self.blocks.shape[1]
            seen = self._seen_in_blocks(self.mask_mod(window))
            full = seen == BLOCK**2
            partial_counts, partial_order = _first_to_last((seen > 0) & ~full)
            full_counts, full_order = _first_to_last(full)
            self._made["block", window] = BlockMask.from_kv_blocks(
                partial_counts,
                partial_order,
                full_counts,
                full_order,
                BLOCK_SIZE=BLOCK,
                mask_mod=self.mask_mod(window),
                seq_lengths=(length, length),
            )
        return self._made["block", window]

    def _seen_in_blocks(self, mask_mod: Callable[..., Tensor]) -> Tensor:
        """Visible pairs (q, k) of each pair of blocks of BLOCK tokens: int64 [R, 1, L / BLOCK, L / BLOCK]."""
        (rows, length), device = self.blocks.shape, self.blocks.device
        row, at = (torch.arange(size, device=device) for size in (rows, length))
        padding = -length % BLOCK
        found = []
        for queries in at.split(BLOCK * max(1, MASK_ELEMENTS // (rows * length * BLOCK))):
            mask = mask_mod(row[:, None, None], None, queries[:, None], at)
            mask = F.pad(mask, (0, padding, 0, -len(queries) % BLOCK))
            found.append(mask.unflatten(-1, (-1, BLOCK)).sum(-1).unflatten(1, (-1, BLOCK)).sum(2))
        return torch.cat(found, 1)[:, None]


def _first_to_last(mask: Tensor) -> tuple[Tensor, Tensor]:
    """The number of true entries of each row of `mask`, and the indices of its entries with the true ones first."""
    return mask.sum(-1, dtype=torch.int32), mask.int().argsort(descending=True, stable=True).int()
