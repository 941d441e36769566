"""Dialogues in which the best of several candidates is played at each turn, by a critic (Figure 3a of the paper).

    python scripts/play_best_of_n.py --agent_model mini --env_model mini --critic critic --critic_reference sampled \
        --candidates 4 --input_path test.jsonl --output_path acting.test.jsonl

The agent and the human are those of simulate_interactions.py, the critics those of rank_best_of_n.py. The critic sees
the reference solution, so this measures critics, not agents. The same command continues a run that was stopped.
"""

from __future__ import annotations

from typing import Annotated

from sweet_rl.dialogues import HumanSettings
from sweet_rl.dialogues.simulate import CollectionSettings, PlayerSettings, Simulation
from sweet_rl.dialogues.task_types import ProtocolSettings, load_domain
from sweet_rl.method.best_of_n import best_of_n
from sweet_rl.method.critics import CriticFlags
from sweet_rl.models.base import Sampling
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.rendering.settings import BrowserSettings
from sweet_rl.runs.cli import prefix, run
from sweet_rl.runs.step import StepSettings

SAMPLING = Sampling(n=16)
ENV_FLAGS = prefix("env_", hostname="hostname", tokenizer=None, api_key_variable="api_key_variable")
CRITIC_FLAGS = prefix("critic_", model_id="critic", critic_type="critic_type", critic_settings="critic_settings")


def main(
    input_path: str,
    output_path: str,
    critic: Annotated[CriticFlags, CRITIC_FLAGS],
    players: PlayerSettings,
    collection: Annotated[CollectionSettings, prefix("", dialogues_per_task="best_of_n")],
    agent: Annotated[ModelSettings, prefix("agent_")],
    env: Annotated[ModelSettings, ENV_FLAGS],
    calls: CallSettings,
    human: Annotated[HumanSettings, prefix("env_", retry_leaks="retry_leaks")],
    pages: BrowserSettings,
    protocol: ProtocolSettings,
    step: Annotated[StepSettings, prefix("", limit=None)],
    sampling: Annotated[Sampling, prefix("", n="candidates", seed=None)] = SAMPLING,
    task_type: str = "code",
) -> None:
    """Play dialogues with the critic's choice of each message.

    Args:
        input_path: Tasks, JSONL.
        output_path: Trajectories, JSONL; a manifest is written beside it.
        task_type: Domain, as for simulate_interactions.py.
    """
    selector = best_of_n(critic.chosen, sampling.temperature)
    domain = load_domain(task_type, protocol)
    simulation = Simulation(domain, players, collection, sampling, agent, env, calls, human, pages, selector)
    simulation.run(input_path, output_path, step)


if __name__ == "__main__":
    run(main)
