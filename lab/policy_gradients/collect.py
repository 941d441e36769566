"""Step 1 with the log-probs of sampling in the agent's messages, which policy gradients need.

    python -m lab.policy_gradients.collect --agent_model policy --env_model mini --best_of_n 4 \
        --input_path train.jsonl --output_path trajectories.jsonl

The flags are those of simulate_interactions.py. The log-probs take 10 bytes a token.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from sweet_rl.dialogues import Domain, Environment, HumanSettings
from sweet_rl.dialogues.collect import CollectionSettings
from sweet_rl.dialogues.simulate import PlayerSettings, Simulation
from sweet_rl.dialogues.task_types import load_domain
from sweet_rl.models.base import Completion, Sampling
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.rendering.settings import BrowserSettings
from sweet_rl.runs.cli import prefix, run
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.step import StepSettings

ENV_FLAGS = prefix("env_", hostname="hostname", tokenizer=None, api_key_variable="api_key_variable")


class Recorded:
    """An environment that keeps the log-probs of each message of the agent in it, rounded to six decimals."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def __getattr__(self, name: str) -> Any:
        return getattr(self._environment, name)

    def step(self, completion: Completion, prompt_text: str | None = None) -> None:
        """Add the agent's message. Raises UserError if its tokens or their log-probs are not known."""
        if completion.token_ids is None or completion.logprobs is None:
            raise UserError(
                "the agent's server does not report the ids and log-probs of the tokens that it samples. Use vLLM or "
                "an agent in this process, or collect with simulate_interactions.py and train with --old_logprobs "
                "recomputed."
            )
        self._environment.step(completion, prompt_text)
        self._environment.dialogue[-1]["logprobs"] = [round(value, 6) for value in completion.logprobs]


def recorded(domain: Domain) -> Domain:
    """The domain whose dialogues have the log-probs of sampling."""

    def environment(*arguments: Any, **settings: Any) -> Any:
        return Recorded(domain.environment(*arguments, **settings))

    return replace(domain, name=f"{domain.name} with log-probs", environment=environment)


def check_on_policy(sampling: Sampling, agent_prefix: str | None) -> None:
    """Raise UserError unless what is sampled and played is the policy's own distribution."""
    changed = {
        "--temperature": sampling.temperature != 1,
        "--top_p": sampling.top_p != 1,
        "--agent_prefix": bool(agent_prefix),
    }
    for flag, differs in changed.items():
        if differs:
            raise UserError(
                f"{flag} samples from another distribution than the policy's own, but policy gradients need dialogues "
                "of the policy itself. Leave it out."
            )


def main(
    input_path: str,
    output_path: str,
    players: PlayerSettings,
    collection: Annotated[CollectionSettings, prefix("", dialogues_per_task="best_of_n")],
    sampling: Annotated[Sampling, prefix("", n=None, seed=None)],
    agent: Annotated[ModelSettings, prefix("agent_")],
    env: Annotated[ModelSettings, ENV_FLAGS],
    calls: CallSettings,
    human: Annotated[HumanSettings, prefix("env_", retry_leaks="retry_leaks")],
    pages: BrowserSettings,
    step: Annotated[StepSettings, prefix("", limit=None)],
    task_type: str = "code",
) -> None:
    """Simulate dialogues of a policy that is to learn from them.

    Args:
        input_path: Tasks, JSONL.
        output_path: Trajectories, JSONL.
        task_type: Domain, as for simulate_interactions.py.
    """
    check_on_policy(sampling, players.agent_prefix)
    domain = recorded(load_domain(task_type))
    Simulation(domain, players, collection, sampling, agent, env, calls, human, pages).run(
        input_path, output_path, step
    )


if __name__ == "__main__":
    run(main)
