"""The micro-batches of several processes hold every example once."""

from __future__ import annotations

import numpy as np
import pytest

from sweet_rl.training.batches import FILLER, ProcessBatches


@pytest.mark.parametrize("examples", [1, 7, 8, 9, 13, 16, 21])
@pytest.mark.parametrize("processes, micro", [(1, 8), (1, 3), (2, 4), (2, 1), (4, 2), (8, 1)])
def test_every_example_counts_once_in_its_step_and_no_process_takes_more_micro_batches(examples, processes, micro):
    order = list(np.random.default_rng(0).permutation(examples))
    size = 8 if micro != 3 else 9
    all_batches = [list(own := ProcessBatches(order, size, micro, p, processes)) for p in range(processes)]
    assert {len(batches) for batches in all_batches} == {len(own)}
    counted = [[i for batch in batches if batch[0] != FILLER for i in batch] for batches in all_batches]
    assert sorted(i for own in counted for i in own) == sorted(order)
    assert all(1 <= len(batch) <= micro for batches in all_batches for batch in batches if batch[0] != FILLER)

    per_step = size // (micro * processes)
    for step in range(-(-examples // size)):
        batches = [b for own in all_batches for b in own[step * per_step : (step + 1) * per_step]]
        found = sorted(i for batch in batches if batch[0] != FILLER for i in batch)
        assert found == sorted(order[step * size : (step + 1) * size])


def test_a_process_without_an_example_gets_one_that_does_not_count():
    batches = [list(ProcessBatches([5, 6, 7, 8, 9], 4, 1, process, 2)) for process in (0, 1)]
    assert batches == [[[5], [6], [9]], [[7], [8], [FILLER, 9]]]
