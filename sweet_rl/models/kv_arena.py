"""The key-value cache of a running batch whose rows come and go, and a store of caches to be continued.

`transformers` hands every layer's new keys and values to `Cache.update` and attends to what it returns. An
arena is such a cache whose rows each have a length of their own: active rows lie at 0..rows-1, row r's
token at position p lies in column p, and joining, leaving and copying rows touch nothing else.
"""

from __future__ import annotations

from collections import OrderedDict

import torch
from transformers import DynamicCache
from transformers.cache_utils import Cache

from sweet_rl.errors import UserError

COLUMN_STEP = 64


class KVArena(Cache):
    """Keys and values of a batch of independent rows: [layers, rows, heads, columns, head size].

    The last column is scratch: padding writes there and nobody reads it.
    """

    def __init__(self, model: torch.nn.Module, budget_bytes: int, usual_rows: int) -> None:
        super().__init__(layers=[])
        self.usual_rows = usual_rows
        key_shapes, value_shapes, self.dtype, self.device = _probe(model)
        self.layer_count = len(key_shapes)
        self.key_heads, self.key_size = key_shapes[0]
        self.value_heads, self.value_size = value_shapes[0]
        self.budget_bytes = budget_bytes
        self.token_bytes = (
            self.layer_count
            * (self.key_heads * self.key_size + self.value_heads * self.value_size)
            * torch.empty((), dtype=self.dtype).element_size()
        )
        self.keys, self.values = self._zeros(0, 0)
        self._window: tuple | None = None

    def _zeros(self, rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
        place = {"dtype": self.dtype, "device": self.device}
        keys = torch.zeros(self.layer_count, rows, self.key_heads, columns, self.key_size, **place)
        values = torch.zeros(self.layer_count, rows, self.value_heads, columns, self.value_size, **place)
        return keys, values

    @property
    def scratch(self) -> int:
        """The column that takes what padding writes."""
        return self.keys.shape[3] - 1

    def fits(self, rows: int, columns: int) -> bool:
        """Whether rows x columns stay within the memory budget."""
        return rows * (columns + 1 + COLUMN_STEP) * self.token_bytes <= self.budget_bytes

    def reserve(self, rows: int, columns: int, used: int) -> None:
        """Makes room for `rows` rows of `columns` columns; the first `used` rows keep their content."""
        have_rows, have_columns = self.keys.shape[1], self.keys.shape[3]
        if rows <= have_rows and columns < have_columns:
            return
        new_rows, new_columns = max(rows, have_rows), max(columns + 1, have_columns)
        if rows > have_rows:
            new_rows = max(rows, min(2 * have_rows, self.usual_rows))
        if columns >= have_columns:
            new_columns = max(columns + 1, have_columns + have_columns // 2)
        new_columns = -(-new_columns // COLUMN_STEP) * COLUMN_STEP
        if new_rows * new_columns * self.token_bytes > self.budget_bytes:
            new_rows, new_columns = rows, -(-(columns + 1) // COLUMN_STEP) * COLUMN_STEP
        keys, values = self._zeros(new_rows, new_columns)
        kept = min(have_columns, new_columns) - 1  # the old scratch column is not content
        if used and kept > 0:
            keys[:, :used, :, :kept] = self.keys[:, :used, :, :kept]
            values[:, :used, :, :kept] = self.values[:, :used, :, :kept]
        self.keys, self.values = keys, values

    def look_at(self, low: int, high: int, columns: torch.Tensor, width: int) -> None:
        """Sets what the next forward pass writes and reads.

        Rows low..high-1 write their new tokens to `columns` ([rows, new tokens] int64) and read columns
        0..width-1.
        """
        rows = torch.arange(low, high, device=self.device)[:, None].expand_as(columns)
        self._window = (low, high, rows, columns, width)

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):  # noqa: ANN001, ANN002, ANN003
        low, high, rows, columns, width = self._window
        keys, values = self.keys[layer_idx], self.values[layer_idx]
        keys[rows, :, columns] = key_states.transpose(1, 2)
        values[rows, :, columns] = value_states.transpose(1, 2)
        return keys[low:high, :, :width], values[low:high, :, :width]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0 if self._window is None else self._window[4]

    def copy_rows(self, source: torch.Tensor, target: torch.Tensor, width: int) -> None:
        """Copies columns 0..width-1 of the rows `source` onto the rows `target` (int64, same length)."""
        self.keys[:, target, :, :width] = self.keys[:, source, :, :width]
        self.values[:, target, :, :width] = self.values[:, source, :, :width]

    def take_out(self, row: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.keys[:, row, :, :width].clone(), self.values[:, row, :, :width].clone()

    def put_in(self, row: int, entry: tuple[torch.Tensor, torch.Tensor]) -> None:
        width = entry[0].shape[2]
        self.keys[:, row, :, :width] = entry[0]
        self.values[:, row, :, :width] = entry[1]


class PrefixStore:
    """Caches of finished replies by their token ids, so that a dialogue's next turn computes only what is
    new.

    The least recently stored entries are dropped beyond `budget_bytes`. Each entry is handed out once.
    """

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.bytes = 0
        self._entries: OrderedDict[tuple[int, ...], tuple[torch.Tensor, torch.Tensor]] = OrderedDict()

    def put(self, ids: tuple[int, ...], entry: tuple[torch.Tensor, torch.Tensor]) -> None:
        self.pop(ids)
        self._entries[ids] = entry
        self.bytes += _size(entry)
        while self.bytes > self.budget_bytes:
            _, dropped = self._entries.popitem(last=False)
            self.bytes -= _size(dropped)

    def pop(self, ids: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor] | None:
        entry = self._entries.pop(ids, None)
        if entry is not None:
            self.bytes -= _size(entry)
        return entry


def _size(entry: tuple[torch.Tensor, torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in entry)


def _probe(model: torch.nn.Module) -> tuple[list, list, torch.dtype, torch.device]:
    """Heads and head sizes of each layer's keys and values, their type and device, from one forward pass of
    a token."""
    device = model.get_input_embeddings().weight.device
    cache = DynamicCache()
    with torch.inference_mode():
        model(torch.zeros(1, 1, dtype=torch.long, device=device), past_key_values=cache, use_cache=True)
    layers = getattr(cache, "layers", [])
    keys = [(layer.keys.shape[1], layer.keys.shape[3]) for layer in layers if getattr(layer, "keys", None) is not None]
    values = [(layer.values.shape[1], layer.values.shape[3]) for layer in layers if len(keys) == len(layers)]
    if not keys or len(keys) != len(layers) or len(set(keys)) > 1 or len(set(values)) > 1:
        raise UserError(
            f"{type(model).__name__} does not keep one plain key-value cache per layer (recurrent or "
            "mixed layers), "
            "which sampling in this process needs. Serve it instead (vllm serve, transformers serve) "
            "and give "
            "--hostname."
        )
    return keys, values, layers[0].keys.dtype, device
