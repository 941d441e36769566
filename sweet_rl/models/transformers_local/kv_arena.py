"""Memory for the keys and values of a running batch, which grows and shrinks by rows."""

from __future__ import annotations

from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import Cache

from sweet_rl.runs.errors import UserError, first_line

_COLUMN_STEP = 64


class KVArena(Cache):
    """Keys and values of a batch, one tensor [rows, heads, columns, size] per layer for each.

    The last column is scratch: padding is written there and never read.

    Args:
        model: A causal language model; one token is passed through it to find the shapes.
        budget_bytes: Memory for keys and values.

    Raises:
        UserError: The model has no plain key-value cache in each layer.
    """

    def __init__(self, model: Any, budget_bytes: int) -> None:
        super().__init__(layers=[])
        self.device = model.get_input_embeddings().weight.device
        probe = DynamicCache()
        try:
            with torch.inference_mode():
                model(torch.zeros(1, 1, dtype=torch.long, device=self.device), past_key_values=probe, use_cache=True)
        except Exception as error:  # of a model that wants a cache of its own
            raise cannot_sample(model, error) from error
        pairs: list[tuple[Any, Any]] = [
            (getattr(layer, "keys", None), getattr(layer, "values", None)) for layer in probe.layers
        ]
        if not pairs or any(not torch.is_tensor(one) or one.dim() != 4 for pair in pairs for one in pair):
            raise cannot_sample(model)
        self._layers = [tuple(one[:0, :, :0] for one in pair) for pair in pairs]
        self.capacity = budget_bytes // sum(one.numel() * one.element_size() for pair in pairs for one in pair)
        self._window: tuple = ()

    @property
    def scratch(self) -> int:
        """The column that padding is written to."""
        return self._layers[-1][0].shape[2] - 1

    def fits(self, rows: int, columns: int) -> bool:
        """Return whether rows x columns stay within the memory budget."""
        return rows * (columns + 1 + _COLUMN_STEP) <= self.capacity

    def reserve(self, rows: int, columns: int, used: int) -> None:
        """Make room for `rows` rows of `columns` columns; the first `used` rows keep their content."""
        # Of the last layer, which grows last: without memory for all of them, the first ones are larger from then on.
        have_rows, have_columns = self._layers[-1][0].shape[0], self.scratch + 1
        if rows <= have_rows and columns < have_columns:
            return
        needed = -(-(columns + 1) // _COLUMN_STEP) * _COLUMN_STEP
        shape = max(2 * have_rows if rows > have_rows else have_rows, rows), max(needed, have_columns)
        if shape[0] * shape[1] > self.capacity:
            shape = rows, needed
        kept = min(have_columns, shape[1]) - 1  # without the old scratch column
        for place, pair in enumerate(self._layers):
            grown = tuple(one.new_zeros(shape[0], one.shape[1], shape[1], one.shape[3]) for one in pair)
            for new, old in zip(grown, pair, strict=True):
                if used and kept > 0:
                    new[:used, :, :kept] = old[:used, :, :kept]
            self._layers[place] = grown

    def look_at(self, rows: slice | torch.Tensor, columns: torch.Tensor, width: int) -> None:
        """Set what the next forward pass writes and reads.

        Args:
            rows: Rows of the pass; a slice is read without a copy.
            columns: Columns that their new tokens are written to: int64 [rows, new tokens].
            width: Number of columns that are read.
        """
        places = torch.arange(rows.start, rows.stop, device=self.device) if isinstance(rows, slice) else rows
        self._window = (rows, places[:, None].expand_as(columns), columns, width)

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):  # noqa: ANN001, ANN002, ANN003
        rows, places, columns, width = self._window
        keys, values = self._layers[layer_idx]
        keys[places, :, columns] = key_states.transpose(1, 2)
        values[places, :, columns] = value_states.transpose(1, 2)
        return keys[rows, :, :width], values[rows, :, :width]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self._window[-1] if self._window else 0

    def read_row(self, row: int, columns: int) -> list[tuple[torch.Tensor, ...]]:
        """Copies of the keys and values of columns 0..columns-1 of a row, [heads, columns, size] each, per layer."""
        return [tuple(one[row, :, :columns].clone() for one in pair) for pair in self._layers]

    def write_row(self, row: int, pairs: list[tuple[torch.Tensor, ...]]) -> None:
        """Write what `read_row` returned into the first columns of a row."""
        for pair, kept in zip(self._layers, pairs, strict=True):
            for one, old in zip(pair, kept, strict=True):
                one[row, :, : old.shape[1]] = old

    def copy_rows(self, source: list[int], target: list[int], width: int) -> None:
        """Copy columns 0..width-1 of the rows `source` onto the rows `target`."""
        to, of = (torch.tensor(rows, device=self.device) for rows in (target, source))
        for pair in self._layers:
            for one in pair:
                one[to, :, :width] = one[of, :, :width]


def cannot_sample(model: Any, error: Exception | None = None) -> UserError:
    """The error for a model that cannot be sampled from in this process; `error` is that of a trial pass, if it failed:
    of the model, or of a device without memory."""
    trial = f" (a trial pass failed: {first_line(error)})" if error else ""
    return UserError(
        f"{type(model).__name__} cannot be sampled from in this process{trial}, which needs one plain key-value cache "
        "per layer that rows of different lengths can share. Serve it instead (vllm serve, transformers serve) and "
        "give --hostname."
    )
