"""Turn credit in verl 0.9: an advantage estimator, and ColBench as an agent loop that gives each turn its credit.

    export VERL_USE_EXTERNAL_MODULES=sweet_rl.integrations.verl
    python -m verl.trainer.main_ppo algorithm.adv_estimator=turn_credit data.train_files=tasks.parquet \
        actor_rollout_ref.rollout.agent.agent_loop_config_path=colbench.yaml ...

The rows are those of `sweet-rl export --to verl` on tasks; docs/integrations.md has the file colbench.yaml.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from uuid import uuid4

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput, register
from verl.trainer.ppo.core_algos import register_adv_est

from sweet_rl.integrations.benchmark import Benchmark, CalledModel, DialogueFailed
from sweet_rl.method.critic_types import CriticFlags
from sweet_rl.method.turn_credit import TurnScorer
from sweet_rl.models.base import ChatModel, Completion, Sampling
from sweet_rl.models.load import load_model
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.cli import build
from sweet_rl.runs.records import Part, Task


def turns_of_mask(response_mask: Tensor) -> Tensor:
    """The turn of each of the agent's tokens: [B, R] of 0 and 1 -> int64 [B, R], numbered from 0; -1 elsewhere.

    A turn is a run of ones: between two turns are the tokens of the human's reply.
    """
    own = response_mask.bool()
    begins = own & ~F.pad(own, (1, 0))[:, :-1]
    return torch.where(own, begins.cumsum(1) - 1, -1)


def at_last_tokens(credit: Sequence[float], response_mask: Tensor) -> Tensor:
    """The credit of each turn at the turn's last token, float32 [R]; turns that were cut off are left out."""
    turns = turns_of_mask(response_mask[None])[0]
    scores = torch.zeros(len(turns))
    for turn, value in enumerate(credit):
        places = (turns == turn).nonzero()
        if len(places):
            scores[places[-1]] = value
    return scores


@register_adv_est("turn_credit")
def turn_advantages(
    token_level_rewards: Tensor, response_mask: Tensor, index: np.ndarray, config: Any = None, **_: Any
) -> tuple[Tensor, Tensor]:
    """Every token of a turn gets the turn's credit minus a baseline.

    The baseline of a dialogue is the mean credit of all turns of the *other* dialogues of its prompt (0 without any).
    So it depends on nothing that this dialogue does. A mean over the dialogues that reached the same turn would not:
    the policy decides which ones do. Nothing is summed over later turns: the credit of a turn is an advantage already.

    Args:
        token_level_rewards: [B, R]; the sum over a turn is its credit.
        response_mask: [B, R], 1 for the agent's tokens.
        index: [B], the prompt of each dialogue.
        config: verl's `algorithm`; with norm_adv_by_std_in_grpo (default) advantages are divided by the standard
            deviation over all turns of the batch.

    Returns:
        Advantages [B, R] and returns [B, R], the credit without the baseline; 0 outside of the agent's tokens.
    """
    with torch.no_grad():
        turns = turns_of_mask(response_mask)
        own, count = turns >= 0, int(turns.max()) + 1
        places = turns.clamp(min=0)
        shape = len(turns), max(count, 1)
        rewards = token_level_rewards * own
        credit = rewards.new_zeros(shape).scatter_add_(1, places, rewards)
        spoken = torch.arange(shape[1], device=turns.device) <= turns.max(dim=1, keepdim=True).values
        groups = torch.as_tensor(np.unique(index, return_inverse=True)[1], device=turns.device)
        same = (groups[:, None] == groups).to(credit.dtype).fill_diagonal_(0)
        others = (same @ spoken.to(credit.dtype).sum(1)).clamp(min=1)
        advantages = credit - (same @ credit.sum(1) / others)[:, None]
        if config is None or config.get("norm_adv_by_std_in_grpo", True):
            spread = advantages[spoken].std(unbiased=False) if spoken.any() else advantages.new_zeros(())
            advantages = advantages / (spread + 1e-6)
        return advantages.gather(1, places) * own, credit.gather(1, places) * own


class CreditedOutput(AgentLoopOutput):
    """A dialogue whose token-level scores are the credit of its turns, each at the turn's last token."""

    turn_credit: list[float]

    def as_dict(self) -> dict[str, Any]:
        output = super().as_dict()
        credit = output.pop("turn_credit")
        return output | {"rm_scores": at_last_tokens(credit, output["response_mask"])}


class _Policy:
    """The policy behind verl's server manager as a `ChatModel`; `sampled` has the ids and log-probs of its replies."""

    def __init__(self, loop: ColBenchLoop, chat: ChatFormat, sampling_params: dict[str, Any]) -> None:
        self.chat, self.error, self.name = chat, None, ""
        self.sampled: list[tuple[list[int], list[float] | None]] = []
        self._loop, self._sampling, self._request = loop, sampling_params, uuid4().hex

    async def complete_parts(
        self, parts: list[Part], sampling: Sampling, tokenizer: str | None = None
    ) -> list[Completion]:
        ids, _ = self.chat.encode(parts, tokenizer)
        output = await self._loop.server_manager.generate(
            request_id=self._request, prompt_ids=ids, sampling_params=dict(self._sampling)
        )
        self.sampled.append((output.token_ids, output.log_probs))
        ended = bool(output.token_ids) and output.token_ids[-1] in self.chat.eos_ids
        reason = "stop" if ended else "length"
        return [Completion.of_ids(self.chat, output.token_ids, output.log_probs, reason, len(ids))]


@register("sweet_rl_colbench")
class ColBenchLoop(AgentLoopBase):
    """A dialogue of the policy with the human about the task of a row, in the package's prompts.

    Args:
        args: Arguments of verl.
        benchmark: Fields of `Benchmark`: task_type, scripted_human, max_turns, ...
        human_model: Model that plays the human, if no script does.
        human_hostname: Its server.
        critic: Flags of score_turns.py: the critic whose credit the turns get. Without one the reward is at the last
            token, as GRPO wants it.
        kwargs: Keyword arguments of verl.
    """

    def __init__(
        self,
        *args: Any,
        benchmark: dict[str, Any] | None = None,
        human_model: str | None = None,
        human_hostname: str | None = None,
        critic: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.benchmark = _benchmark(json.dumps(dict(benchmark or {"task_type": "mini"}), sort_keys=True))
        self.human = None
        if human_model is not None:
            self.human = CalledModel.of(_human(human_model, human_hostname), human_model)
        self.scorer = None if critic is None else _scorer(json.dumps(dict(critic), sort_keys=True))

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        """Play the dialogue of a row. Raises DialogueFailed if a side failed or the task cannot be graded."""
        task = Task.from_dict(json.loads(kwargs["extra_info"]["task"]))
        policy = _Policy(self, _chat(self.tokenizer), sampling_params)
        sample = int(kwargs.get("session_id", 0))
        played = await self.benchmark.play(task, sample, policy, self.human)  # type: ignore[arg-type]  # a ChatModel
        graded = await self.benchmark.grade(played)
        if graded.reward is None:
            raise DialogueFailed(f"{played.id} cannot be graded: {(graded.grade or {}).get('ungradable')}")
        ids, own = policy.chat.encode(played.parts or [], played.tokenizer)
        start = own.index(True) if True in own else len(own)
        limit = self.rollout_config.response_length
        logprobs = [one for sampled, known in policy.sampled for one in known or [float("nan")] * len(sampled)]
        known = len(logprobs) == sum(own) and not np.isnan(logprobs).any()
        given = iter(logprobs)
        facts = {"reward": graded.reward, "turns": played.turns}
        fields: dict[str, Any] = {
            "prompt_ids": ids[:start],
            "response_ids": ids[start:][:limit],
            "response_mask": [int(one) for one in own[start:]][:limit],
            "response_logprobs": [next(given) if one else 0.0 for one in own[start:]][:limit] if known else None,
            "reward_score": graded.reward,
            "num_turns": len(played.dialogue_history),
            "metrics": AgentLoopMetrics(),
            "extra_fields": {"reward_extra_info": facts, "turn_scores": [], "tool_rewards": []},
        }
        if self.scorer is None:
            return AgentLoopOutput(**fields)
        (credit,) = await self.scorer.credit([graded])
        return CreditedOutput(**fields, turn_credit=credit)


@lru_cache
def _benchmark(settings: str) -> Benchmark:  # verl makes a loop for every dialogue
    return Benchmark(**json.loads(settings))


@lru_cache
def _scorer(settings: str) -> TurnScorer:
    chosen = build(CriticFlags, json.loads(settings), "critic").chosen
    chosen.check_models()
    return TurnScorer(chosen)


@lru_cache
def _human(model: str, hostname: str | None) -> ChatModel:
    return load_model(model, ModelSettings(hostname=hostname), CallSettings())


@lru_cache
def _chat(tokenizer: Any) -> ChatFormat:
    return ChatFormat(tokenizer)
