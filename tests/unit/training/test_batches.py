"""The micro-batches of several processes hold every example once."""

from __future__ import annotations

import numpy as np
import pytest

from sweet_rl.runs.errors import UserError
from sweet_rl.training.batches import FILLER, divided_batch, step_batches
from sweet_rl.training.settings import TrainingSettings


@pytest.mark.parametrize("examples", [1, 7, 8, 9, 13, 16, 21])
@pytest.mark.parametrize("processes, micro", [(1, 8), (1, 3), (2, 4), (2, 1), (4, 2), (8, 1)])
def test_every_example_counts_once_in_its_step_and_no_process_takes_more_micro_batches(examples, processes, micro):
    order = list(np.random.default_rng(0).permutation(examples))
    planned = np.array_split(order, -(-examples // (8 if micro != 3 else 9)))
    steps = [list(step_batches(planned, micro, process, processes)) for process in range(processes)]
    assert {len(own) for own in steps} == {len(planned)}
    for number, same_step in enumerate(zip(*steps, strict=True)):
        assert len({len(batches) for batches in same_step}) == 1
        counted = [batch for batches in same_step for batch in batches if batch[0] != FILLER]
        assert all(1 <= len(batch) <= micro for batch in counted)
        assert sorted(i for batch in counted for i in batch) == sorted(planned[number])


def test_a_process_without_an_example_gets_one_that_does_not_count():
    steps = [list(step_batches([[5, 6, 7, 8], [9]], 1, process, 2)) for process in (0, 1)]
    assert steps == [[[[5], [6]], [[9]]], [[[7], [8]], [[FILLER, 9]]]]


@pytest.mark.parametrize("micro, processes, expected", [
    (None, 1, (8, 1)), (None, 4, (2, 1)), (4, 1, (4, 2)), (4, 2, (4, 1)), (4, 4, (2, 1)), (4, 8, (1, 1)),
])  # fmt: skip
def test_a_micro_batch_is_at_most_the_share_of_its_process(micro, processes, expected):
    settings = TrainingSettings(train_batch_size=8, micro_train_batch_size=micro)
    assert divided_batch(settings, processes) == expected


@pytest.mark.parametrize("micro, processes, named", [(5, 1, "multiple"), (None, 8, "times 8 process"), (None, 24, "")])
def test_a_batch_that_cannot_be_divided_is_refused(micro, processes, named):
    with pytest.raises(UserError, match=f"--train_batch_size 12.*{named}"):
        divided_batch(TrainingSettings(train_batch_size=12, micro_train_batch_size=micro), processes)
