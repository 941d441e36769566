"""Every table and figure as configuration: the options, the settings of both sizes, critics, rankings, rows and plots."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sweet_rl.errors import UserError
from workflow.steps import HOSTED, Branch, Plan, World


@dataclass(frozen=True)
class Options:
    """What is made, and where it runs.

    Attributes:
        mini: the tiny agent and tasks, on CPU (default).
        paper: the paper's models and settings.
        seeds: seeds 0 to N-1; default: 5 with --mini, 1 with --paper.
        iterations: table2: collect with the new policy and train again, so many rounds in all.
        smoke: with --mini: every step on a handful of tasks.
        judge: figure3a: an LLM as a judge; with --paper the untrained agent by default.
        judge_hostname: servers of the judge.
        page: with --mini: folder for a page of the results.
        output: folder of everything; default: runs/reproduce-mini, runs/reproduce-mini-smoke or runs/reproduce-paper.
        dry_run: print every command with its settings, run none.
        launcher: local (this machine) or slurm (every step is a job).
        profile: YAML file of the launcher's resources by kind of step; default for slurm: workflow/slurm.yaml.
        cores: local: number of steps at the same time; default: the cores of this machine.
        gpus: local: GPUs that the steps share, and that a training takes; default: all with --paper.
    """

    mini: bool = False
    paper: bool = False
    seeds: int | None = None
    iterations: int = 1
    smoke: bool = False
    judge: str | None = None
    judge_hostname: str | None = None
    page: str | None = None
    output: str | None = None
    dry_run: bool = False
    launcher: Literal["local", "slurm"] = "local"
    profile: str | None = None
    cores: int | None = None
    gpus: int | None = None


@dataclass(frozen=True)
class Paper:
    """Models, servers and files of --paper.

    Attributes:
        hostname: servers of the simulated human, host:port, several separated by commas.
        agent_hostname: servers of the untrained agent; default: in the process, as trained policies always are.
        frontend_hostname: servers of the vision human; without it the frontend columns of Table 2 are left out.
        engine: of agents in the process: auto, vllm or transformers.
        train_tasks: tasks to collect trajectories on.
        test_tasks: tasks to evaluate on.
        trajectories: a file of trajectories, instead of collecting.
        response_template: text before the agent's turns in the texts of a released file.
        agent_model: the model to train.
        env_model: the simulated human.
        strong_model: the stronger agent of Tables 2 and 4.
        hosted: table2: also GPT-4o and o1-mini, through the hosted API (OPENAI_API_KEY).
        num_tasks: only so many tasks of each file, to try the set-up.
        agent_prompt_path: template of the agent's prompt.
        user_prompt_path: template of the human's prompt.
    """

    hostname: str | None = None
    agent_hostname: str | None = None
    frontend_hostname: str | None = None
    engine: str = "auto"
    train_tasks: str = "data/backend_tasks/train.jsonl"
    test_tasks: str = "data/backend_tasks/test.jsonl"
    trajectories: str | None = None
    response_template: str | None = None
    agent_model: str = "meta-llama/Llama-3.1-8B-Instruct"
    env_model: str = "meta-llama/Llama-3.1-70B-Instruct"
    strong_model: str = "meta-llama/Llama-3.1-70B-Instruct"
    hosted: bool = False
    num_tasks: int | None = None
    agent_prompt_path: str | None = None
    user_prompt_path: str | None = None


MINI_AGENT, VISION_HUMAN = "sweet_rl/models/packaged/mini", "Qwen/Qwen2-VL-72B-Instruct"
CRITICS = {  # name: what it is in the step's name, script, configuration, data, more flags
    "critic": ("the critic (critic)", "train_dpo", "critic", "pairs_with_c"),
    "critic_without_c": ("the critic (critic_without_c)", "train_dpo", "critic", "pairs"),
    "critic_without_normalisation": (
        "the critic (critic_without_normalisation)", "train_dpo", "critic", "pairs_with_c", "--normalize", "none"),
    "critic_one_mean": (
        "the critic (critic_one_mean)", "train_dpo", "critic", "pairs_with_c", "--normalize", "trajectory"),
    "critic_regression_head": ("the critic (regression head)", "train_value", "value_critic", "pairs_with_c"),
    "value_critic": ("the critic (value)", "train_value", "value_critic", "rewarded"),
    "value_function": ("the value function", "train_value", "value_function", "rewarded"),
}  # fmt: skip
RANKINGS = {  # name: critic ("" for the agent), more flags
    "regression_head": ("critic_regression_head",),
    "without_c": ("critic_without_c", "--no_prompt"),
    "without_normalisation": ("critic_without_normalisation", "--normalize", "none"),
    "one_mean": ("critic_one_mean", "--normalize", "trajectory"),
    "untrained": ("",),
    "seed": ("critic", "--reference", "seed", "--reference_model_id", "{agent}"),
    "value_function": ("value_function",),
}
METHODS = {"zero-shot": "zero_shot", "rejection fine-tuning": "rft", "multi-turn DPO": "dpo", "SWEET-RL": "sweet"}
ABLATIONS = {
    "SWEET-RL": "sweet", "regression head": "sweet_regression_head",
    "without training-time information": "sweet_without_c", "without length normalisation": "sweet_without_normalisation",
}  # fmt: skip
MINI_ABLATIONS = {
    "one mean for the dialogue": "sweet_one_mean", "no critic training": "sweet_untrained",
    "seed model as reference": "sweet_seed",
}  # fmt: skip
ORACLE = {  # target credit
    "SWEET critic": "", "SWEET critic (seed reference)": "seed", "regression head": "regression_head",
    "value function": "value_function", "without training-time information": "without_c",
    "without length normalisation": "without_normalisation", "one mean for the dialogue": "one_mean",
    "no critic training": "untrained",
}  # fmt: skip
ACTORS = {"SWEET critic": "sweet", "value function": "value", "without training-time information": "without_c"}
