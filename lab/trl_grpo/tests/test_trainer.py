"""TRL's own GRPOTrainer, with the packaged tiny agent as policy and critic."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("trl", reason="needs an environment of its own: pip install trl==1.16.0")

from datasets import Dataset  # noqa: E402
from trl import GRPOConfig  # noqa: E402

from lab.trl_grpo.trainer import TrlRollouts, TurnCreditTrainer, reward  # noqa: E402
from sweet_rl.dialogues.mini.tasks import make_tasks  # noqa: E402
from sweet_rl.integrations.turn_advantages import turns_of_mask  # noqa: E402
from sweet_rl.models.weights import model_path  # noqa: E402
from sweet_rl.runs.errors import UserError  # noqa: E402

PMI = {"critic_type": "pmi", "model_id": "mini", "critic_settings": {"normalize": "none"}}


class Recorded(TurnCreditTrainer):
    """Keeps the rows and the batch of the last generation."""

    def _generate_and_score_completions(self, inputs):
        self.rows, self.batch = inputs, super()._generate_and_score_completions(inputs)
        return self.batch


def trainer_of(folder: Path, critic: dict | None = PMI, broken: bool = False, **settings) -> Recorded:
    tasks = make_tasks(2, seed=3)
    if broken:
        tasks[0]["ground_truth"] = "def unfinished("
    (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    benchmark = {"input_path": str(folder / "tasks.jsonl"), "agent_prompt_path": "mini_agent.txt", "max_turns": 3}
    rollouts = TrlRollouts(benchmark, critic=critic)
    args = GRPOConfig(
        str(folder), per_device_train_batch_size=6, num_generations=3, max_completion_length=100, max_steps=1,
        learning_rate=1e-3, shuffle_dataset=False, scale_rewards="none", use_cpu=True, bf16=False, report_to=[],
        save_strategy="no", logging_steps=1, disable_tqdm=True, **settings,
    )  # fmt: skip
    rows = Dataset.from_list(rollouts.rows())
    return Recorded(model_path("mini"), reward, args, train_dataset=rows, rollout_func=rollouts)


def test_a_turns_tokens_have_its_credit_minus_the_mean_of_the_other_dialogues_and_the_humans_tokens_0(tmp_path):
    trainer = trainer_of(tmp_path)
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    trainer.train()
    assert any(not torch.equal(before[name], value) for name, value in trainer.model.state_dict().items())

    rows, advantages = trainer.rows, trainer.batch["advantages"]
    own = trainer.batch["completion_mask"] * trainer.batch["tool_mask"]
    turns = turns_of_mask(own)
    assert advantages.shape == trainer.batch["completion_ids"].shape == own.shape
    assert not advantages[own == 0].any() and ((own == 0) & trainer.batch["completion_mask"].bool()).any()
    for number, row in enumerate(rows):
        group = number // 3 * 3
        others = [one for other in range(group, group + 3) if other != number for one in rows[other]["turn_credit"]]
        assert int(turns[number].max()) + 1 == len(row["turn_credit"]) > 0
        for turn, credit in enumerate(row["turn_credit"]):
            found = advantages[number, turns[number] == turn]
            assert found.tolist() == pytest.approx([credit - sum(others) / len(others)] * len(found), abs=1e-5)
    every = [credit for row in rows for credit in row["turn_credit"]]
    logged = {name: value for step in trainer.state.log_history for name, value in step.items()}
    assert logged["turn_credit/mean"] == pytest.approx(np.mean(every), abs=1e-5)
    assert logged["turn_credit/std"] == pytest.approx(np.std(every), abs=1e-5) != 0


def test_no_token_of_a_dialogue_that_cannot_be_graded_is_trained_and_no_baseline_has_its_credit(tmp_path):
    trainer = trainer_of(tmp_path, broken=True)
    trainer.train()
    assert [row["reward"] is None for row in trainer.rows] == [True] * 3 + [False] * 3
    own = trainer.batch["completion_mask"] * trainer.batch["tool_mask"]
    assert not own[:3].any() and not trainer.batch["advantages"][:3].any() and trainer.batch["advantages"][3:].any()
    assert all(torch.isfinite(value).all() for value in trainer.model.state_dict().values())


def test_a_failure_of_the_trainers_sampling_ends_the_training_as_itself(tmp_path, monkeypatch):
    trainer = trainer_of(tmp_path)

    def fails(*_, **__):
        raise MemoryError("no room for the keys")

    monkeypatch.setattr(trainer, "_generate_single_turn", fails)
    with pytest.raises(MemoryError, match="no room"):
        trainer.train()


def test_without_a_critic_the_trainer_says_what_is_missing(tmp_path):
    with pytest.raises(UserError, match="give the rollouts a critic"):
        trainer_of(tmp_path, critic=None).train()
