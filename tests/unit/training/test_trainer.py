"""The Trainer's sums over items: steps, held-out examples, processes and the log. Nothing is trained here."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers
from torch.nn.modules.module import _IncompatibleKeys

from sweet_rl.runs.errors import UserError
from sweet_rl.training.arguments import training_arguments
from sweet_rl.training.batches import FILLER
from sweet_rl.training.order import epoch_order
from sweet_rl.training.settings import TrainingSettings
from sweet_rl.training.trainer import GroupedTrainer, Objective, _FirstStep
from tests.support.tiny_models import tiny_model


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
    return {"values": torch.tensor(indices, dtype=torch.float32), "blocks": torch.zeros(1, 5), "items": len(indices)}


OBJECTIVE = Objective(
    collate,
    lambda values, batch: (values.sum(), {"double": 2 * values.sum(), "preference_loss": values.sum()}),
    lambda model, batch: batch["values"],
)


@pytest.fixture
def make(tmp_path):
    def trainer(split=(range(12), ()), together=1, **settings) -> GroupedTrainer:
        settings = TrainingSettings(**{"train_batch_size": 4, "micro_train_batch_size": 2, **settings})
        args = training_arguments(settings, tmp_path, evaluate=len(split[1]) > 0)
        split = tuple(np.asarray(side, dtype=np.int64) for side in split)
        chat = SimpleNamespace(tokenizer=None)
        return GroupedTrainer(tiny_model("llama"), args, OBJECTIVE, Numbers(13), split, chat, together)

    return trainer


def test_a_steps_loss_is_the_mean_over_its_items_and_the_log_has_means_since_the_last_line(make, monkeypatch):
    trainer = make()
    batches = [collate([1, 2]), collate([6])]
    items = trainer._get_num_items_in_batch(batches, torch.device("cpu"))
    assert items == 3
    losses = [trainer.compute_loss(trainer.model, batch, num_items_in_batch=items) for batch in batches]
    assert [loss.item() for loss in losses] == [1, 2]
    logs = {"loss": 3.0}
    trainer.log(logs)
    assert logs["double"] == pytest.approx(2 * 9 / 3) and logs["tokens_per_second"] > 0 and logs["memory_gb"] > 0
    assert "items" not in logs and "tokens" not in logs
    monkeypatch.setattr(time, "perf_counter", lambda: trainer.since + 4)
    trainer.compute_loss(trainer.model, collate([5]), num_items_in_batch=items)
    tokens = float(trainer.sums["tokens"])
    logs = {"loss": 5.0}
    trainer.log(logs)
    assert logs["double"] == 10 and logs["tokens_per_second"] == tokens / 4 > 0


def test_held_out_examples_count_once_each_whatever_the_batches(make):
    trainer = make((range(6), (6, 7, 8, 9, 12)))
    trainer.model.train()
    figures = trainer.evaluate()
    assert figures["eval_loss"] == pytest.approx(np.mean([6, 7, 8, 9, 12]))
    assert figures["eval_double"] == pytest.approx(2 * figures["eval_loss"])
    assert trainer.model.training
    assert trainer.evaluation.tolist() == [6, 9, 12, 7, 8]  # by prompt


def test_an_example_that_only_fills_up_a_process_counts_nowhere(make):
    trainer = make()
    batches = [trainer._collate([3, 5]), trainer._collate([FILLER, 7])]
    items = trainer._get_num_items_in_batch(batches, torch.device("cpu"))
    losses = [trainer.compute_loss(trainer.model, batch, num_items_in_batch=items) for batch in batches]
    assert items == 2 and [loss.item() for loss in losses] == [4, 0]
    logs = {"loss": 4.0}
    trainer.log(logs)
    assert logs["double"] == 8


def test_only_inputs_of_the_model_are_cast_under_deepspeed(make):
    trainer = make()
    trainer.is_deepspeed_enabled = True
    plugin = SimpleNamespace(hf_ds_config=SimpleNamespace(dtype=lambda: torch.bfloat16))
    trainer.accelerator = SimpleNamespace(state=SimpleNamespace(deepspeed_plugin=plugin))
    floats = torch.rand(3)
    batch = trainer._prepare_inputs({"reference": floats, "items": 3, "model_inputs": {"pixel_values": floats}})
    assert batch["items"] == 3 and torch.equal(batch["reference"], floats)
    assert batch["model_inputs"]["pixel_values"].dtype == torch.bfloat16


def test_the_first_step_is_checked_against_the_loss_of_equal_models(make):
    trainer = make()
    trainer.objective = dataclasses.replace(OBJECTIVE, first_loss=2.0)
    check = _FirstStep(trainer)

    def first_step(values: list[int]) -> None:
        check.on_train_begin(trainer.args, trainer.state, trainer.control)
        batch = trainer._collate(values) | {"reference": torch.zeros(len(values))}
        trainer.compute_loss(trainer.model, batch, num_items_in_batch=len(values))
        check.on_pre_optimizer_step(trainer.args, trainer.state, trainer.control)

    first_step([1, 3])  # mean 2
    with pytest.raises(UserError, match="2.500000 instead of 2.000000.*differ by 2.5 per token"):
        first_step([1, 4])
    trainer.state.global_step = 7  # continued: the policy has moved
    first_step([1, 4])  # not checked
    trainer.state.global_step, trainer.model.config.attention_dropout = 0, 0.1
    first_step([1, 4])


def test_the_order_is_that_of_the_seed_with_equal_prompts_together(make):
    order = list(make(together=4)._get_train_sampler())
    assert sorted(order) == list(range(12))
    assert all(len({i % 3 for i in order[start : start + 4]}) == 1 for start in (0, 4, 8))
    assert order == list(make(together=4)._get_train_sampler())
    assert order != list(make(together=4, seed=1)._get_train_sampler())
    trainer = make((range(2, 6), ()))
    assert sorted(trainer._get_train_sampler()) == [2, 3, 4, 5] and sorted(trainer.costs) == [12, 13, 14, 15]


def test_weight_decay_shrinks_all_weights_but_norms_and_biases_beside_the_gradient(make):
    trainer = make(weight_decay=0.5, learning_rate=0.1)
    optimizer = trainer.create_optimizer()
    before = {name: parameter.detach().clone() for name, parameter in trainer.model.named_parameters()}
    for parameter in trainer.model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in trainer.model.named_parameters():
        kept = 1.0 if "norm" in name or name.endswith("bias") else 1 - 0.1 * 0.5
        torch.testing.assert_close(parameter.detach(), kept * before[name])


def test_the_first_steps_of_adam_follow_the_given_betas(make):
    trainer = make(learning_rate=0.1, adam_betas=(0.5, 0.75))
    weight = trainer.model.lm_head.weight
    optimizer = trainer.create_optimizer()
    before = weight.detach().clone()
    for gradient in (1.0, 3.0):
        weight.grad = torch.full_like(weight, gradient)
        optimizer.step()
    # Step 1 moves by the rate. Step 2: moments 0.5 * 0.5 + 0.5 * 3 and 0.75 * 0.25 + 0.25 * 9, over 1 - beta^2.
    second = (1.75 / 0.75) / (2.4375 / 0.4375) ** 0.5
    torch.testing.assert_close(weight.detach(), before - 0.1 * (1 + second))


def test_the_order_is_that_of_the_epoch_of_the_training(make):
    trainer = make()
    for epoch in (0, 1, 2):
        trainer.state.epoch = float(epoch)
        expected = epoch_order(trainer.groups, trainer.costs, 4, trainer.args.seed, epoch).tolist()
        assert list(trainer._get_train_sampler()) == expected


@pytest.mark.parametrize(("missing", "said"), [(["lm_head.weight"], 0), (["lm_head.weight", "model.norm.weight"], 1)])
def test_a_tied_weight_is_not_missed_in_a_checkpoint(monkeypatch, missing, said):
    messages: list[str] = []
    monkeypatch.setattr(transformers.trainer.logger, "warning", messages.append)
    trainer = GroupedTrainer.__new__(GroupedTrainer)
    trainer.model = tiny_model("llama", tie_word_embeddings=True)  # its output layer is its embedding
    trainer._issue_warnings_after_load(_IncompatibleKeys(missing, []))
    assert len(messages) == said and not any("lm_head" in message for message in messages)
