"""The loop's sums over items: steps, the log and the first step, on examples that are numbers."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from sweet_rl.runs.errors import UserError
from sweet_rl.training.batches import FILLER, epoch_steps, prompt_groups
from sweet_rl.training.checkpoints import Checkpoints
from sweet_rl.training.log import Log, means_over_items
from sweet_rl.training.loop import Objective, batch_losses, collated, train
from sweet_rl.training.run import make_engine
from sweet_rl.training.settings import TrainingSettings
from tests.support.tiny_models import tiny_model


@dataclass
class Numbers:
    """Example i has the loss i, prompt i % 3 and length 10 + i."""

    count: int

    def __len__(self) -> int:
        return self.count

    @property
    def prompts(self) -> list[bytes]:
        return [bytes([i % 3]) for i in range(self.count)]

    @property
    def lengths(self) -> list[int]:
        return [10 + i for i in range(self.count)]


def collate(indices: list[int]) -> dict:
    return {
        "values": torch.tensor(indices, dtype=torch.float32), "reference": torch.zeros(len(indices)),
        "blocks": torch.zeros(1, 5), "items": len(indices), "indices": indices,
    }  # fmt: skip


OBJECTIVE = Objective(
    collate,
    lambda values, batch: (values.sum(), {"double": 2 * values.sum(), "preference_loss": values.sum()}),
    lambda model, batch: batch["values"] + 0 * sum(weight.sum() for weight in model.parameters()),
)


@pytest.fixture
def run(tmp_path):
    """Trains on numbers and returns the lines of the log and the indices of each batch in their order."""

    def run(count=12, objective=OBJECTIVE, together=1, model=None, **settings):
        seen: list[list[int]] = []
        collate_them = objective.collate

        def collate_seen(indices: list[int]) -> dict:
            seen.append(indices)
            return collate_them(indices)

        how = TrainingSettings(**{"train_batch_size": 4, "micro_train_batch_size": 2, **settings})
        engine = make_engine(how)
        log = Log(engine.accelerator, [], tmp_path)
        objective = dataclasses.replace(objective, collate=collate_seen)
        checkpoints = Checkpoints(tmp_path, how, engine)
        train(model or tiny_model("llama"), objective, Numbers(count), engine, log, checkpoints, together)
        return log.history, seen

    return run


def test_a_steps_loss_is_the_mean_over_its_items_and_a_line_has_means_since_the_last_one(run):
    lines, batches = run(11, logging_steps=2)
    assert [line["step"] for line in lines] == [2, 3] and [line["epoch"] for line in lines] == [2 / 3, 1]
    assert sorted(len(batch) for batch in batches) == [1, 2, 2, 2, 2, 2]
    steps = [sum(batches[at : at + 2], []) for at in (0, 2, 4)]
    assert lines[0]["loss"] == pytest.approx((np.mean(steps[0]) + np.mean(steps[1])) / 2)
    assert lines[0]["double"] == pytest.approx(2 * lines[0]["loss"])
    assert lines[1]["loss"] == pytest.approx(np.mean(steps[2])) and lines[1]["double"] == pytest.approx(
        2 * lines[1]["loss"]
    )
    assert all(line["tokens_per_second"] > 0 and line["memory_gb"] > 0 for line in lines)
    assert not {"items", "tokens"} & lines[0].keys()


def test_an_example_that_only_fills_up_a_process_counts_nowhere():
    engine, model = make_engine(TrainingSettings()), tiny_model("llama")
    loss, figures, _ = batch_losses(model, OBJECTIVE, collated(OBJECTIVE, [FILLER, 7]), engine)
    assert loss == 0 and figures["double"] == 0 and figures["items"] == 0 and figures["tokens"] == 0
    loss, figures, _ = batch_losses(model, OBJECTIVE, collated(OBJECTIVE, [3, 5]), engine)
    assert loss == 8 and means_over_items(figures, engine.accelerator)["double"] == 8


def test_a_model_that_does_not_begin_as_its_reference_is_not_trained(run):
    def training(distance, **settings):
        model = tiny_model("llama")
        before = model.lm_head.weight.detach().clone()
        reference = before[0].float() + distance
        objective = dataclasses.replace(
            OBJECTIVE,
            collate=lambda indices: collate(indices) | {"reference": reference},
            outputs=lambda model, batch: model.lm_head.weight[0],
            equals_reference=True,
        )
        how = {"train_batch_size": 2, "learning_rate": 1.0, **settings}
        try:
            run(2, objective=objective, model=model, **how)
        finally:
            moved.append(not torch.equal(model.lm_head.weight, before))

    moved: list[bool] = []
    training(9e-5)
    training(0.19, bf16=True)  # rounding
    for distance, settings in ((1.1e-4, {}), (0.21, {"bf16": True}), (math.nan, {}), (math.nan, {"bf16": True})):
        with pytest.raises(UserError, match="reference are the same, .* differ by"):
            training(distance, **settings)
    assert moved == [True, True, False, False, False, False]


def test_the_order_is_that_of_the_seed_and_the_epoch_with_equal_prompts_together(run):
    _, batches = run(together=4, max_epochs=2, micro_train_batch_size=None)
    groups = prompt_groups(Numbers(12), 4)
    epochs = [epoch_steps(groups, Numbers(12).lengths, 4, 0, epoch) for epoch in (0, 1)]
    expected = [step.tolist() for steps in epochs for step in steps]
    assert batches == expected and expected[:3] != expected[3:]
    assert all(len({i % 3 for i in batch}) == 1 for batch in batches)


def test_a_training_of_some_steps_goes_through_the_examples_as_often_as_it_takes(run):
    how = {"micro_train_batch_size": None, "logging_steps": 1}
    lines, batches = run(7, max_steps=5, **how)
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5]
    for limits in ({"max_epochs": 2, "max_steps": 5}, {"max_epochs": 5, "max_steps": 4}, {"max_epochs": 2}):
        assert max(line["step"] for line in run(7, **limits, **how)[0]) == 4
    _, whole = run(7, max_epochs=3, **how)
    assert batches == whole[: len(batches)]


def test_figures_that_are_not_finite_stop_a_step_before_it_moves_a_weight(run):
    model = tiny_model("llama")
    before = model.lm_head.weight.detach().clone()
    infinite = dataclasses.replace(OBJECTIVE, outputs=lambda model, batch: model.lm_head.weight.sum()[None] * torch.inf)
    with pytest.raises(UserError, match="step 1: the loss is"):
        run(2, objective=infinite, train_batch_size=2, model=model, learning_rate=1.0)
    assert torch.equal(model.lm_head.weight, before)


@pytest.mark.parametrize(("max_norm", "expected"), [(1.0, [0.6, 0.8]), (10.0, [3.0, 4.0]), (0.0, [3.0, 4.0])])
def test_gradients_are_clipped_to_the_largest_norm_and_zero_is_no_bound(max_norm, expected):
    engine = make_engine(TrainingSettings(max_norm=max_norm))
    model = torch.nn.Linear(2, 1, bias=False)
    engine.prepare(model)
    model.weight.grad = torch.tensor([[3.0, 4.0]])
    assert engine.clip() == 5
    torch.testing.assert_close(model.weight.grad, torch.tensor([expected]))
