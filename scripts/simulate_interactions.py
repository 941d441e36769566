"""Step 1: dialogues between the agent and a simulated human, as trajectories.

The tiny agent and its scripted human, no download:

    python scripts/simulate_interactions.py --agent_model mini --env_model mini \
        --input_path tasks.jsonl --output_path trajectories.jsonl --best_of_n 3

An agent and a human on servers (`vllm serve MODEL` on each):

    python scripts/simulate_interactions.py \
        --agent_model meta-llama/Llama-3.1-8B-Instruct --agent_hostname localhost:8001 \
        --env_model meta-llama/Llama-3.1-70B-Instruct --hostname localhost:8000 \
        --input_path train.jsonl --output_path trajectories.jsonl --best_of_n 3

A domain of your own (docs/your_own_domain.md):

    python scripts/simulate_interactions.py --task_type my_domain.py --agent_model mini --env_model my_human \
        --input_path tasks.jsonl --output_path trajectories.jsonl --best_of_n 4

Frontend Design, whose human sees pictures of the pages:

    python scripts/simulate_interactions.py --task_type html \
        --agent_model meta-llama/Llama-3.1-8B-Instruct --agent_hostname localhost:8001 \
        --env_model Qwen/Qwen2-VL-72B-Instruct --hostname localhost:8000 \
        --input_path websites.jsonl --output_path trajectories.jsonl --best_of_n 6

The same command continues a run that was stopped.
"""

from __future__ import annotations

from typing import Annotated

from sweet_rl.dialogues import HumanSettings
from sweet_rl.dialogues.simulate import CollectionSettings, PlayerSettings, Simulation
from sweet_rl.dialogues.task_types import ProtocolSettings, load_domain
from sweet_rl.models.base import Sampling
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.rendering.settings import BrowserSettings
from sweet_rl.runs.cli import prefix, run
from sweet_rl.runs.released import SIMULATE
from sweet_rl.runs.step import StepSettings

ENV_FLAGS = prefix("env_", hostname="hostname", tokenizer=None, api_key_variable="api_key_variable")


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
    protocol: ProtocolSettings,
    step: Annotated[StepSettings, prefix("", limit=None)],
    task_type: str = "code",
) -> None:
    """Simulate dialogues.

    Args:
        input_path: Tasks, JSONL.
        output_path: Trajectories, JSONL; a manifest is written beside it.
        task_type: Domain: code (Backend Programming), html (Frontend Design), mini, or the path of a
            Python file with a DOMAIN.
    """
    domain = load_domain(task_type, protocol)
    simulation = Simulation(domain, players, collection, sampling, agent, env, calls, human, pages)
    simulation.run(input_path, output_path, step)


if __name__ == "__main__":
    run(main, released=SIMULATE)
