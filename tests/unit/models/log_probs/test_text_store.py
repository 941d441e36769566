"""Many texts in three arrays, in memory and mapped from files."""

from __future__ import annotations

import shutil

import numpy as np

from sweet_rl.models.log_probs.text_store import TextStore
from tests.unit.models.log_probs.test_logps import dialogue_texts


def assert_holds(store: TextStore, texts: list) -> None:
    assert len(store) == len(texts) and [text.key for text in store] == [text.key for text in texts]


def test_texts_are_given_back_and_take_five_bytes_per_token_and_eight_per_text():
    texts = dialogue_texts()
    store = TextStore.pack(texts)
    assert_holds(store, texts)
    tokens = sum(map(len, texts))
    assert sum(array.nbytes for array in vars(store).values()) == 5 * tokens + 8 * len(texts)


def test_saved_arrays_are_mapped_and_outlive_their_files(tmp_path):
    texts = dialogue_texts()
    TextStore.pack(texts).save(tmp_path)
    store = TextStore.load(tmp_path)
    shutil.rmtree(tmp_path)
    assert_holds(store, texts)
    assert isinstance(store.ids.base, np.memmap) and np.shares_memory(store[2].ids, store.ids)
