"""A process alone encodes for itself; `tests/integration/training/test_processes.py` has several."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from accelerate import Accelerator

from sweet_rl.models.log_probs.rows import EncodedText
from sweet_rl.runs.errors import UserError
from sweet_rl.training.encoded_once import encoded_once
from sweet_rl.training.examples import PreferenceExamples


def test_a_process_alone_keeps_what_it_has_encoded():
    examples = PreferenceExamples([], np.empty((0, 2), dtype=np.int64), [], Counter())
    assert encoded_once(lambda: examples, Accelerator(cpu=True)) is examples


def test_nothing_is_left_behind_if_another_machine_cannot_encode(tmp_path, monkeypatch):
    def gathered(results, own):
        assert list(tmp_path.iterdir())
        results[:] = [own, (None, "no room")]

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(torch.distributed, "all_gather_object", gathered)
    text = EncodedText(np.array([1, 2], dtype=np.int32), np.array([False, True]))
    examples = PreferenceExamples([text], np.zeros((1, 2), dtype=np.int64), [None], Counter())
    with pytest.raises(UserError, match="no room"):
        encoded_once(lambda: examples, SimpleNamespace(num_processes=2, process_index=0, local_process_index=0))
    assert not list(tmp_path.iterdir())
