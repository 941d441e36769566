"""The loop's sums over items: steps, held-out examples, the log and the first step, on examples that are numbers."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from sweet_rl.runs.errors import UserError
from sweet_rl.training.batches import FILLER
from sweet_rl.training.checkpoints import Checkpoints
from sweet_rl.training.log import Log, means_over_items, totals, tracker_names
from sweet_rl.training.loop import Objective, batch_losses, check_first_loss, collated, evaluate, has_dropout, train
from sweet_rl.training.lora import with_adapter
from sweet_rl.training.order import epoch_steps, prompt_groups
from sweet_rl.training.run import make_engine
from sweet_rl.training.settings import TrainingSettings
from tests.support.tiny_models import tiny_model

LN2 = math.log(2)


@dataclass
class Numbers:
    """Example i has the loss i, prompt i % 3 and length 10 + i."""

    count: int

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

    def run(train_on=range(12), held_out=(), objective=OBJECTIVE, together=1, model=None, **settings):
        seen: list[list[int]] = []
        collate_them = objective.collate

        def collate_seen(indices: list[int]) -> dict:
            seen.append(indices)
            return collate_them(indices)

        how = TrainingSettings(**{"train_batch_size": 4, "micro_train_batch_size": 2, **settings})
        split = tuple(np.asarray(side, dtype=np.int64) for side in (train_on, held_out))
        engine = make_engine(how)
        log = Log(engine.accelerator, [], tmp_path)
        objective = dataclasses.replace(objective, collate=collate_seen)
        checkpoints = Checkpoints(tmp_path, how, engine)
        train(model or tiny_model("llama"), objective, Numbers(13), split, engine, log, checkpoints, together)
        return log.history, seen

    return run


def test_a_steps_loss_is_the_mean_over_its_items_and_a_line_has_means_since_the_last_one(run):
    lines, batches = run(range(1, 12), logging_steps=2)
    assert [line["step"] for line in lines] == [2, 3] and [line["epoch"] for line in lines] == [2 / 3, 1]
    assert sorted(len(batch) for batch in batches) == [1, 2, 2, 2, 2, 2]
    steps = [sum(batches[at : at + 2], []) for at in (0, 2, 4)]
    assert lines[0]["loss"] == pytest.approx((np.mean(steps[0]) + np.mean(steps[1])) / 2)
    assert lines[0]["double"] == pytest.approx(2 * np.mean(steps[0] + steps[1]))
    assert lines[1]["loss"] == pytest.approx(np.mean(steps[2])) and lines[1]["double"] == pytest.approx(
        2 * lines[1]["loss"]
    )
    assert all(line["tokens_per_second"] > 0 and line["memory_gb"] > 0 for line in lines)
    assert not {"items", "tokens"} & lines[0].keys()


def test_held_out_examples_count_once_each_whatever_the_batches(run):
    lines, batches = run(range(6), (6, 7, 8, 9, 12))
    assert lines[-1]["eval_loss"] == pytest.approx(np.mean([6, 7, 8, 9, 12]))
    assert lines[-1]["eval_double"] == pytest.approx(2 * lines[-1]["eval_loss"]) and lines[-1]["step"] == 2
    assert sum(batches[4:], []) == [6, 9, 12, 7, 8]  # by prompt


def test_an_evaluation_leaves_the_model_in_training_mode():
    engine, model = make_engine(TrainingSettings()), tiny_model("llama").train()
    evaluate(model, OBJECTIVE, Numbers(3), np.asarray([1]), 0, engine)
    assert model.training


def test_an_example_that_only_fills_up_a_process_counts_nowhere():
    engine, model = make_engine(TrainingSettings()), tiny_model("llama")
    loss, figures, _ = batch_losses(model, OBJECTIVE, collated(OBJECTIVE, [FILLER, 7]), engine)
    assert loss == 0 and figures["double"] == 0 and figures["items"] == 0 and figures["tokens"] == 0
    loss, figures, _ = batch_losses(model, OBJECTIVE, collated(OBJECTIVE, [3, 5]), engine)
    assert loss == 8 and means_over_items(totals(figures, engine.accelerator))["double"] == 8


def test_the_first_step_is_checked_against_the_loss_of_equal_models(run):
    equal = dataclasses.replace(OBJECTIVE, first_loss=6.5)
    lines, _ = run([6, 7], objective=equal, train_batch_size=2)
    assert lines[0]["loss"] == 6.5
    with pytest.raises(UserError, match="6.000000 instead of 6.500000.*differ by 6 per token"):
        run([5, 7], objective=equal, train_batch_size=2)
    random = tiny_model("llama")
    random.config.attention_dropout = 0.1
    run([5, 7], objective=equal, train_batch_size=2, model=random)  # not checked


def test_a_first_step_that_is_wrong_moves_no_weight(run):
    model = tiny_model("llama")
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    trains = dataclasses.replace(OBJECTIVE, first_loss=1.0, outputs=lambda model, batch: model.lm_head.weight[0])
    trains = dataclasses.replace(trains, collate=lambda indices: collate(indices) | {"reference": torch.zeros(32)})
    with pytest.raises(UserError, match="instead of 1.000000"):
        run([5, 7], objective=trains, train_batch_size=2, micro_train_batch_size=2, model=model, learning_rate=1.0)
    assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())


def test_the_order_is_that_of_the_seed_and_the_epoch_with_equal_prompts_together(run):
    _, batches = run(together=4, max_epochs=2, micro_train_batch_size=None)
    groups = prompt_groups(Numbers(13), np.arange(12), 4)
    epochs = [epoch_steps(groups, Numbers(13).lengths, 4, 0, epoch) for epoch in (0, 1)]
    expected = [step.tolist() for steps in epochs for step in steps]
    assert batches == expected and expected[:3] != expected[3:]
    assert all(len({i % 3 for i in batch}) == 1 for batch in batches)


def test_a_training_of_some_steps_goes_through_the_examples_as_often_as_it_takes(run):
    how = {"micro_train_batch_size": None, "logging_steps": 1}
    lines, batches = run(range(7), (7,), max_steps=5, **how)
    assert [line["step"] for line in lines if "loss" in line] == [1, 2, 3, 4, 5]
    assert [line["step"] for line in lines if "eval_loss" in line] == [2, 4, 5]
    for limits in ({"max_epochs": 2, "max_steps": 5}, {"max_epochs": 5, "max_steps": 4}, {"max_epochs": 2}):
        assert max(line["step"] for line in run(range(7), **limits, **how)[0]) == 4
    _, whole = run(range(7), (7,), max_epochs=3, **how)
    assert batches[:-1] == whole[: len(batches) - 1]  # up to the last evaluation, which comes a step earlier


def test_a_log_goes_on_where_a_checkpoint_was_written(tmp_path):
    engine = make_engine(TrainingSettings())
    sums = {"double": 6.0, "items": 2.0, "tokens": 5.0}
    logs = [Log(engine.accelerator, [], tmp_path) for _ in range(2)]
    whole, continued = logs
    for log in logs:
        log.begin(0, 2)
        log.step(1, 3.0, sums, write=False)
    stopped, continued = continued, Log(engine.accelerator, [], tmp_path)
    continued.restore(json.loads(json.dumps(stopped.state())))
    continued.begin(1, 2)
    for log in (whole, continued):
        log.step(2, 5.0, {"double": 1.0, "items": 1.0, "tokens": 5.0}, write=True)
    (one,), (other,) = whole.history, continued.history
    assert one["loss"] == other["loss"] == 4 and one["double"] == other["double"] == pytest.approx(7 / 3)


@pytest.mark.parametrize("loss, distance, bf16", [
    (LN2 + 9e-5, 1e-6, False), (LN2 - 9e-5, 1e-6, False), (0.0, 0.0, True), (LN2 + 0.01, 0.03, True),
])  # fmt: skip
def test_what_rounding_does_to_the_first_loss_is_taken(loss, distance, bf16):
    check_first_loss(first_sums(loss, distance), LN2 if loss else 0.0, bf16)


def test_the_loss_of_ipo_is_rounded_in_its_own_scale():
    check_first_loss(first_sums(2500.2, 1e-6), 2500.0, False)
    with pytest.raises(UserError, match="instead of 2500"):
        check_first_loss(first_sums(2500.3, 1e-6), 2500.0, False)


@pytest.mark.parametrize("loss, distance, bf16", [
    (0.69358, 0.01, False),  # reference log-probs rounded to bfloat16 beside a float32 policy
    (math.nan, math.nan, False), (math.nan, math.nan, True), (LN2 + 0.2, 0.5, True),
])  # fmt: skip
def test_another_model_than_the_reference_is_not_trained(loss, distance, bf16):
    with pytest.raises(UserError, match="instead of 0.693147"):
        check_first_loss(first_sums(loss, distance), LN2, bf16)


def first_sums(loss: float, distance: float) -> dict[str, float]:
    return {"preference_loss": 2 * loss, "items": 2.0, "distance": 3 * distance, "scored": 3.0}


def test_dropout_is_found_in_the_settings_and_in_the_modules_but_for_a_new_adapters():
    assert not has_dropout(tiny_model("llama"))
    assert has_dropout(tiny_model("llama", attention_dropout=0.1))
    none = dict.fromkeys(("resid_pdrop", "attn_pdrop", "embd_pdrop", "summary_first_dropout"), 0.0)
    assert not has_dropout(tiny_model("gpt2", **none))
    assert has_dropout(tiny_model("gpt2", **none | {"resid_pdrop": 0.1}))
    pytest.importorskip("peft")
    adapted = with_adapter(tiny_model("llama"), 2)
    for name, module in adapted.named_modules():
        if "lora_dropout" in name and hasattr(module, "p"):
            module.p = 0.5
    assert not has_dropout(adapted)


def test_a_tracker_that_is_not_known_is_refused():
    assert tracker_names("none") == [] == tracker_names("")
    with pytest.raises(UserError, match="--report_to pigeon is not known"):
        tracker_names("tensorboard,pigeon")


def test_figures_that_are_not_finite_stop_a_step_before_it_moves_a_weight(run):
    model = tiny_model("llama")
    before = model.lm_head.weight.detach().clone()
    infinite = dataclasses.replace(OBJECTIVE, outputs=lambda model, batch: model.lm_head.weight.sum()[None] * torch.inf)
    with pytest.raises(UserError, match="step 1: the loss is"):
        run([5, 7], objective=infinite, train_batch_size=2, model=model, learning_rate=1.0)
    assert torch.equal(model.lm_head.weight, before)
