"""Turn credit in verl 0.9: an advantage estimator, and ColBench as an agent loop that gives each turn its credit.

    export VERL_USE_EXTERNAL_MODULES=sweet_rl.integrations.verl
    python -m verl.trainer.main_ppo algorithm.adv_estimator=turn_credit data.train_files=tasks.parquet \
        actor_rollout_ref.rollout.agent.agent_loop_config_path=colbench.yaml ...

The rows are those of `sweet-rl export --to verl` on tasks; docs/integrations.md has the text of colbench.yaml.
"""

from __future__ import annotations

import json
from functools import lru_cache
from inspect import signature
from typing import Any
from uuid import uuid4

import numpy as np
from torch import Tensor
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput, register
from verl.trainer.ppo.core_algos import register_adv_est

from sweet_rl.integrations.token_rollouts import ColBenchRollouts
from sweet_rl.integrations.turn_advantages import at_last_tokens, turn_advantages
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.records import Task


@register_adv_est("turn_credit")
def turn_credit(
    token_level_rewards: Tensor, response_mask: Tensor, index: np.ndarray, config: Any = None, **_: Any
) -> tuple[Tensor, Tensor]:
    """See `turn_advantages`; `scale` is norm_adv_by_std_in_grpo (default True) of `config`, verl's `algorithm`."""
    scale = config is None or config.get("norm_adv_by_std_in_grpo", True)
    return turn_advantages(token_level_rewards, response_mask, index, scale)


class CreditedOutput(AgentLoopOutput):
    """A dialogue whose token-level scores are the credit of its turns, each at the turn's last token."""

    turn_credit: list[float]

    def as_dict(self) -> dict[str, Any]:
        output = super().as_dict()
        credit = output.pop("turn_credit")
        return output | {"rm_scores": at_last_tokens(credit, output["response_mask"])}


@register("sweet_rl_colbench")
class ColBenchLoop(AgentLoopBase):
    """A dialogue of the policy with the human about the task of a row.

    Args:
        args: Arguments of verl.
        kwargs: Those of `ColBenchRollouts`, and keyword arguments of verl. Without `critic` the reward is at the last
            token, as GRPO wants it.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        own = {name: kwargs.pop(name) for name in signature(ColBenchRollouts).parameters if name in kwargs}
        super().__init__(*args, **kwargs)
        self.rollouts = _rollouts(json.dumps(own, sort_keys=True, default=dict))  # dict: of OmegaConf's mappings

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        """Play the dialogue of a row. Raises DialogueFailed if a side failed or the task cannot be graded."""
        request = uuid4().hex

        async def generate(prompt: list[int]) -> tuple[list[int], list[float] | None]:
            output = await self.server_manager.generate(
                request_id=request, prompt_ids=prompt, sampling_params=dict(sampling_params)
            )
            return output.token_ids, output.log_probs

        task = Task.from_dict(json.loads(kwargs["extra_info"]["task"]))
        found = await self.rollouts.rollout(task, int(kwargs.get("session_id", 0)), _chat(self.tokenizer), generate)
        limit, played = self.rollout_config.response_length, found.trajectory
        facts = {"reward": played.reward, "turns": played.turns}
        fields: dict[str, Any] = {
            "prompt_ids": found.prompt_ids,
            "response_ids": found.response_ids[:limit],
            "response_mask": found.response_mask[:limit],
            "response_logprobs": found.logprobs and found.logprobs[:limit],
            "reward_score": played.reward,
            "num_turns": len(played.dialogue_history),
            "metrics": AgentLoopMetrics(),
            "extra_fields": {"reward_extra_info": facts, "turn_scores": [], "tool_rewards": []},
        }
        if found.credit is None:
            return AgentLoopOutput(**fields)
        return CreditedOutput(**fields, turn_credit=found.credit)


@lru_cache
def _rollouts(settings: str) -> ColBenchRollouts:  # verl makes a loop for every dialogue
    return ColBenchRollouts(**json.loads(settings))


@lru_cache
def _chat(tokenizer: Any) -> ChatFormat:
    return ChatFormat(tokenizer)
