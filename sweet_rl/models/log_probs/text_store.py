"""Many encoded texts in three arrays: 5 bytes per token, and on disk one copy for all processes of a machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import overload

import numpy as np

from sweet_rl.models.log_probs.rows import EncodedText


class TextStore(Sequence[EncodedText]):
    """Texts by number. A text is a view of the arrays and is not kept.

    Args:
        ids: Token ids of all N texts, one text after the other: int32 [T].
        train: Mask of the trained tokens: bool [T].
        ends: End of each text: int64 [N].
    """

    def __init__(self, ids: np.ndarray, train: np.ndarray, ends: np.ndarray) -> None:
        self.ids, self.train, self.ends = ids, train, ends

    @classmethod
    def pack(cls, texts: Sequence[EncodedText]) -> TextStore:
        """The store of these texts; at least one."""
        ends = np.cumsum([len(text) for text in texts])
        return cls(np.concatenate([text.ids for text in texts]), np.concatenate([text.train for text in texts]), ends)

    def save(self, folder: Path) -> None:
        """Write the arrays to files in `folder`. Raises OSError if the disk is full."""
        for name, array in vars(self).items():
            np.save(folder / f"{name}.npy", array)

    @classmethod
    def load(cls, folder: Path) -> TextStore:
        """The store that `save` wrote. Its arrays are mapped: processes share their memory, which is that of the file
        cache. The files may be removed afterwards."""
        names = ("ids", "train", "ends")
        return cls(*(np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in names))

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, number: int) -> EncodedText: ...

    @overload
    def __getitem__(self, number: slice) -> list[EncodedText]: ...

    def __getitem__(self, number: int | slice) -> EncodedText | list[EncodedText]:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        start, end = (self.ends[number - 1] if number else 0), self.ends[number]
        return EncodedText(self.ids[start:end], self.train[start:end])
