"""A dialogue of the packaged agent with the scripted human as one sequence of tokens."""

from __future__ import annotations

import asyncio

import pytest

from lab.trl_grpo.token_rollouts import ColBenchRollouts, DialogueFailed, TokenRollout
from sweet_rl.dialogues.mini.tasks import make_tasks
from sweet_rl.models.base import Sampling
from sweet_rl.models.load import load_model
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.runs.records import Task

MINI = {"task_type": "mini", "agent_prompt_path": "mini_agent.txt"}
PMI = {"critic_type": "pmi", "model_id": "mini"}


class Sampler:
    """The packaged agent in the place of a trainer's server; what it was given, and what it sampled."""

    def __init__(self) -> None:
        self.model = load_model("mini", ModelSettings(), CallSettings())
        self.prompts: list[list[int]] = []
        self.replies: list[list[int]] = []
        self.logprobs: list[list[float]] = []

    async def generate(self, ids: list[int]) -> tuple[list[int], list[float] | None]:
        self.prompts.append(ids)
        (reply,) = await self.model.complete(ids, Sampling(seed=len(self.prompts), max_tokens=100))
        self.replies.append(reply.token_ids)
        self.logprobs.append(reply.logprobs)
        return reply.token_ids, reply.logprobs


def rollout(sampler: Sampler, critic: dict | None = None, **changed: str) -> TokenRollout:
    task = Task.from_dict(make_tasks(1, 3)[0] | changed)
    return asyncio.run(ColBenchRollouts(MINI, critic=critic).rollout(task, 0, sampler.model.chat, sampler.generate))


def test_a_dialogue_is_one_sequence_in_which_the_mask_marks_the_sampled_tokens():
    sampler = Sampler()
    found = rollout(sampler)
    sequence, own = found.prompt_ids + found.response_ids, [0] * len(found.prompt_ids) + found.response_mask
    assert sampler.prompts[0] == found.prompt_ids and len(sampler.prompts) > 1
    for prompt, reply in zip(sampler.prompts, sampler.replies, strict=True):
        start, end = len(prompt), len(prompt) + len(reply)
        assert sequence[:start] == prompt and sequence[start:end] == reply and own[start:end] == [1] * len(reply)
    assert sum(own) == sum(map(len, sampler.replies))
    by_token = list(zip(found.logprobs, found.response_mask, strict=True))
    assert [one for one, own in by_token if own] == [one for reply in sampler.logprobs for one in reply]
    assert not any(one for one, own in by_token if not own)
    assert found.trajectory.reward in (0.0, 1.0) and found.credit is None


def test_with_a_critic_each_turn_has_its_credit():
    sampler = Sampler()
    credit = rollout(sampler, PMI).credit
    assert len(credit) == len(sampler.prompts) and all(credit)


def test_a_task_that_cannot_be_graded_has_no_rollout():
    with pytest.raises(DialogueFailed, match="cannot be graded"):
        rollout(Sampler(), ground_truth="def unfinished(")
