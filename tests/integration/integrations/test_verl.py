"""verl's own functions on CPU tensors: the estimator by its name, and a dialogue of the agent loop."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

pytest.importorskip("verl", reason="needs an environment of its own: pip install verl==0.9.1")

from verl import DataProto  # noqa: E402
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput  # noqa: E402
from verl.trainer.ppo.ray_trainer import compute_advantage  # noqa: E402
from verl.workers.rollout.replica import TokenOutput  # noqa: E402

from sweet_rl.dialogues.mini.tasks import make_tasks  # noqa: E402
from sweet_rl.integrations.token_rollouts import ColBenchRollouts  # noqa: E402
from sweet_rl.integrations.turn_advantages import at_last_tokens, turns_of_mask  # noqa: E402
from sweet_rl.integrations.verl import ColBenchLoop, CreditedOutput  # noqa: E402
from sweet_rl.models.base import Sampling  # noqa: E402
from sweet_rl.models.load import load_model  # noqa: E402
from sweet_rl.models.settings import CallSettings, ModelSettings  # noqa: E402
from sweet_rl.runs.records import Task  # noqa: E402

MASK = torch.tensor([[1, 1, 0, 1, 0, 0], [1, 0, 1, 0, 1, 1], [1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0]])


def advantages(rewards: torch.Tensor, mask: torch.Tensor, uid: list[str], std: bool = False) -> torch.Tensor:
    """What verl computes for the estimator's name."""
    data = DataProto.from_dict(
        {"token_level_rewards": rewards, "response_mask": mask}, {"uid": np.array(uid, dtype=object)}
    )
    config = SimpleNamespace(get={"norm_adv_by_std_in_grpo": std}.get)
    return compute_advantage(data, adv_estimator="turn_credit", config=config).batch["advantages"]


def test_every_token_has_its_turns_credit_minus_the_mean_credit_of_the_other_dialogues_turns():
    rewards = torch.stack([at_last_tokens(credit, mask) for credit, mask in zip(
        [[1.0, 3.0], [2.0, 4.0, 9.0], [5.0], []], MASK, strict=True)])  # fmt: skip
    found = advantages(rewards, MASK, ["a", "a", "b", "a"])
    # Dialogue 0: the other turns of its prompt have (2 + 4 + 9) / 3 = 5; dialogue 1: (1 + 3) / 2 = 2; alone: 0.
    assert found.tolist() == [[-4, -4, 0, -2, 0, 0], [0, 0, 2, 0, 7, 7], [5, 5, 5, 0, 0, 0], [0] * 6]
    scaled = advantages(rewards, MASK, ["a", "a", "b", "a"], std=True)
    assert scaled[0, 0].item() == pytest.approx(-4 / np.std([-4, -2, 0, 2, 7, 5]), rel=1e-5)


class Server:
    """The packaged tiny agent in the place of verl's server manager."""

    def __init__(self) -> None:
        self.model = load_model("mini", ModelSettings(), CallSettings())
        self.calls = 0

    async def generate(self, request_id, prompt_ids, sampling_params, **_):
        self.calls += 1
        text = [{"text": "", "train": True, "token_ids": prompt_ids}]
        sampling = Sampling(seed=self.calls, max_tokens=100)
        (reply,) = await self.model.complete_parts(text, sampling, self.model.chat.fingerprint)
        return TokenOutput(token_ids=reply.token_ids, log_probs=reply.logprobs, stop_reason="completed")


def played(response_length: int = 2000, critic: dict | None = None) -> AgentLoopOutput:
    """A dialogue of the loop, made without verl's configuration of a cluster."""
    loop, server = ColBenchLoop.__new__(ColBenchLoop), Server()
    loop.rollouts = ColBenchRollouts({"task_type": "mini", "agent_prompt_path": "mini_agent.txt"}, critic=critic)
    loop.server_manager, loop.tokenizer = server, server.model.chat.tokenizer
    loop.rollout_config = SimpleNamespace(response_length=response_length)
    task = json.dumps(Task.from_dict(make_tasks(1, 3)[0]).to_dict())
    output = asyncio.run(loop.run({}, extra_info={"task": task}))
    if response_length == 2000:
        assert int(turns_of_mask(torch.tensor([output.response_mask])).max()) + 1 == server.calls
    return output


def test_a_dialogue_without_a_critic_has_its_reward_at_the_last_token():
    plain = played()
    assert type(plain) is AgentLoopOutput and plain.reward_score in (0.0, 1.0)
    assert len(plain.response_logprobs) == len(plain.response_mask) == len(plain.response_ids)
    assert plain.as_dict()["rm_scores"][:-1].count_nonzero() == 0


def test_a_dialogue_with_a_critic_has_each_turns_credit_at_the_turns_last_token():
    pmi = {"critic_type": "pmi", "model_id": "mini"}
    whole = played(critic=pmi)
    assert isinstance(whole, CreditedOutput) and whole.response_ids == played().response_ids
    scores, ends = whole.as_dict()["rm_scores"], at_last_tokens([1.0] * 20, torch.tensor(whole.response_mask))
    assert scores.bool().tolist() == ends.bool().tolist()
    assert scores.sum().item() == pytest.approx(sum(whole.turn_credit), rel=1e-5)
    cut = played(response_length=50, critic=pmi)
    assert len(cut.response_ids) == len(cut.response_mask) == len(cut.response_logprobs) == 50
    assert len(cut.as_dict()["rm_scores"]) == 50
