"""A process alone encodes for itself; `tests/integration/training/test_processes.py` has several."""

from __future__ import annotations

from collections import Counter

import numpy as np
from accelerate import Accelerator

from sweet_rl.training.encoded_once import encoded_once
from sweet_rl.training.examples import PreferenceExamples


def test_a_process_alone_keeps_what_it_has_encoded():
    examples = PreferenceExamples([], np.empty((0, 2), dtype=np.int64), [], Counter())
    assert encoded_once(lambda: examples, Accelerator(cpu=True)) is examples
