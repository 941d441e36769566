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
from verl.trainer.ppo.ray_trainer import compute_advantage  # noqa: E402
from verl.workers.rollout.replica import TokenOutput  # noqa: E402

from sweet_rl.dialogues.mini.tasks import make_tasks  # noqa: E402
from sweet_rl.integrations.verl import ColBenchLoop, CreditedOutput, at_last_tokens, turns_of_mask  # noqa: E402
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


def test_a_turn_is_a_run_of_the_agents_tokens():
    assert turns_of_mask(MASK).tolist() == [
        [0, 0, -1, 1, -1, -1], [0, -1, 1, -1, 2, 2], [0, 0, 0, -1, -1, -1], [-1] * 6,
    ]  # fmt: skip
    assert at_last_tokens([1.0, 2.0, 3.0], MASK[0]).tolist() == [0, 1, 0, 2, 0, 0]  # the third turn was cut off


def test_every_token_has_its_turns_credit_minus_the_mean_credit_of_the_other_dialogues_turns():
    rewards = torch.stack([at_last_tokens(credit, mask) for credit, mask in zip(
        [[1.0, 3.0], [2.0, 4.0, 9.0], [5.0], []], MASK, strict=True)])  # fmt: skip
    found = advantages(rewards, MASK, ["a", "a", "b", "a"])
    # Dialogue 0: the other turns of its prompt have (2 + 4 + 9) / 3 = 5; dialogue 1: (1 + 3) / 2 = 2; alone: 0.
    assert found.tolist() == [[-4, -4, 0, -2, 0, 0], [0, 0, 2, 0, 7, 7], [5, 5, 5, 0, 0, 0], [0] * 6]
    scaled = advantages(rewards, MASK, ["a", "a", "b", "a"], std=True)
    assert scaled[0, 0].item() == pytest.approx(-4 / np.std([-4, -2, 0, 2, 7, 5]), rel=1e-5)


def test_where_the_policy_ends_the_dialogue_the_baseline_is_right_on_average_and_one_by_turn_is_not():
    """Asking on is worth +1, stopping -1; who asks on has another turn, whose credit is 0 on average.

    A baseline from the dialogue's own later turns, or from those that got as far, would depend on the action.
    """
    draw = torch.Generator().manual_seed(0)
    asks = torch.rand(4000, generator=draw) < 0.5
    later = torch.randn(4000, generator=draw) + 0.5  # credit of the second turn, of those that have one
    mask = torch.stack([torch.ones(4000), torch.zeros(4000), asks.float()], 1).long()
    rewards = torch.stack([torch.where(asks, 1.0, -1.0), torch.zeros(4000), later * asks], 1)
    found = advantages(rewards, mask, [str(i // 2) for i in range(4000)])
    gain = found[asks, 0].mean() - found[~asks, 0].mean()
    assert gain.item() == pytest.approx(2.0, abs=0.15)


class Server:
    """The packaged tiny agent in the place of verl's server manager."""

    def __init__(self) -> None:
        self.model = load_model("mini", ModelSettings(), CallSettings())
        self.prompts: list[list[int]] = []

    async def generate(self, request_id, prompt_ids, sampling_params, **_):
        self.prompts.append(prompt_ids)
        text = [{"text": "", "train": True, "token_ids": prompt_ids}]
        sampling = Sampling(seed=len(self.prompts), max_tokens=100)
        (reply,) = await self.model.complete_parts(text, sampling, self.model.chat.fingerprint)
        return TokenOutput(token_ids=reply.token_ids, log_probs=reply.logprobs, stop_reason="completed")


def loop_of(server: Server, **settings) -> ColBenchLoop:
    loop = ColBenchLoop.__new__(ColBenchLoop)  # without verl's configuration of a cluster
    rollout = SimpleNamespace(response_length=2000)
    loop.server_manager, loop.tokenizer, loop.rollout_config = server, server.model.chat.tokenizer, rollout
    from sweet_rl.integrations import verl

    loop.benchmark = verl._benchmark(json.dumps({"task_type": "mini", "agent_prompt_path": "mini_agent.txt"}))
    critic = settings.get("critic")
    loop.scorer, loop.human = critic and verl._scorer(json.dumps(critic)), None
    return loop


def test_a_dialogue_is_one_sequence_whose_tokens_were_sampled_and_whose_turns_have_their_credit():
    task = make_tasks(1, 3)[0]
    row = {"extra_info": {"task": json.dumps(Task.from_dict(task).to_dict())}}
    server = Server()
    plain = asyncio.run(loop_of(server).run({}, **row))
    assert type(plain).__name__ == "AgentLoopOutput" and plain.reward_score in (0.0, 1.0)
    mask = torch.tensor(plain.response_mask)
    sequence = plain.prompt_ids + plain.response_ids
    assert server.prompts[0] == plain.prompt_ids
    for prompt in server.prompts:  # every prompt is the beginning of the whole
        assert sequence[: len(prompt)] == prompt
    assert len(plain.response_logprobs) == len(mask) and all(
        (value != 0) == bool(own) or value == 0 for value, own in zip(plain.response_logprobs, mask, strict=True)
    )
    turns = int(turns_of_mask(mask[None]).max()) + 1
    assert turns == len(server.prompts)

    server = Server()
    credited = asyncio.run(loop_of(server, critic={"critic_type": "pmi", "model_id": "mini"}).run({}, **row))
    assert isinstance(credited, CreditedOutput) and credited.response_ids == plain.response_ids
    scores = credited.as_dict()["rm_scores"]
    assert scores.shape == mask.shape and scores.count_nonzero() == turns == len(credited.turn_credit)
    assert scores.sum().item() == pytest.approx(sum(credited.turn_credit), rel=1e-5)
    assert plain.as_dict()["rm_scores"][:-1].count_nonzero() == 0
