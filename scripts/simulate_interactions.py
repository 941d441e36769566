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

import asyncio
import contextlib
from dataclasses import replace
from typing import Annotated, Any

from sweet_rl.cli import prefix, print_summary, run
from sweet_rl.cli.released import SIMULATE
from sweet_rl.credit.critics import CriticSettings
from sweet_rl.domains import Domain, Human, HumanSettings
from sweet_rl.errors import UserError
from sweet_rl.models import ChatModel, Sampling, load_model
from sweet_rl.models.cache import CallCache
from sweet_rl.models.load import model_input
from sweet_rl.models.prefixed import PrefixedModel
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.records import Task, hash_rows, read_records, without_excluded
from sweet_rl.rendering.renderer import BrowserSettings
from sweet_rl.rollout.collect import CollectionSettings, collect
from sweet_rl.rollout.play import CandidateSelector, DialogueSetup
from sweet_rl.runs.push import pushed
from sweet_rl.runs.run import open_run
from sweet_rl.task_types import load_domain

PICTURES_KEPT = 1024  # so that a reference page is not drawn again at every turn
ENV_FLAGS = prefix("env_", hostname="hostname", tokenizer=None, api_key_variable="api_key_variable")
HUMAN_FLAGS = prefix("env_", retry_leaks="retry_leaks")
SAMPLING_FLAGS = prefix("", n="candidates", seed=None)
CRITIC_FLAGS = prefix("critic_", model_id="critic", critic_type="critic_type", seed=None)


def main(
    agent_model: str,
    env_model: str,
    input_path: str,
    output_path: str,
    env: Annotated[ModelSettings, ENV_FLAGS],
    agent: Annotated[ModelSettings, prefix("agent_")],
    calls: CallSettings,
    collection: CollectionSettings,
    sampling: Annotated[Sampling, SAMPLING_FLAGS],
    human: Annotated[HumanSettings, HUMAN_FLAGS],
    pages: BrowserSettings,
    critic: Annotated[CriticSettings | None, CRITIC_FLAGS] = None,
    task_type: str = "code",
    agent_prompt_path: str | None = None,
    user_prompt_path: str | None = None,
    agent_prefix: str | None = None,
    human_name: str | None = None,
    retry_failed: bool = False,
    seed: int = 0,
    overwrite: bool = False,
    push_to_hub: str | None = None,
) -> None:
    """Simulate dialogues.

    Args:
        agent_model: the agent: `mini`, a checkpoint folder, a hub name, or a server's name for it.
        env_model: the human: a model as above, or a script of the domain (`mini`, which knows the tasks of
            make_mini_tasks.py only; `designer` for html).
        input_path: tasks, JSONL.
        output_path: trajectories, JSONL; a manifest is written beside it.
        task_type: the domain: code (Backend Programming), html (Frontend Design), mini, mini_html, or the path of a
            Python file with a DOMAIN.
        agent_prompt_path: template with {problem_description} and, if wanted, {max_turns}; the domain's by default.
        user_prompt_path: template of a human that a model plays; the domain's by default.
        agent_prefix: text that each of the agent's replies begins with (to answer immediately: 'I WANT TO ANSWER:').
        human_name: the human's name in rows and tables; default: that of its model or script.
        retry_failed: play the dialogues again that are recorded as failed.
        seed: of everything that is random.
        overwrite: replace the output.
        push_to_hub: repository on the hub, OWNER/NAME, to which the finished output is uploaded with a card.
    """
    if sampling.n > 1 and critic is None:
        raise UserError(f"--candidates is {sampling.n}: with several per turn, --critic has to choose one of them.")
    if collection.record_logprobs:
        _check_on_policy(sampling, agent_prefix)
    domain = load_domain(task_type)
    scripted = env_model in domain.scripted_humans
    if domain.draws_pages and not scripted and not env.hostname and env.engine != "openai":
        raise UserError(
            f"--env_model {env_model} plays a human who sees pictures, which only a server shows it: give --hostname, "
            f"the server of a vision model{''.join(f', or --env_model {name}' for name in domain.scripted_humans)}."
        )
    sampling, env = replace(sampling, seed=seed), replace(env, tokenizer=None)
    agent_prompt = domain.agent_template(agent_model, agent_prompt_path)
    human_prompt = "" if scripted else domain.human_template(user_prompt_path)
    human = domain.limits(human)
    if critic is not None:
        critic = replace(critic, seed=seed)
    tasks = without_excluded(read_records(input_path, Task, limit=collection.num_tasks), collection.exclude)
    domain.check(tasks, input_path, env_model)
    jobs = collection.jobs(tasks)
    settings = {
        "agent_model": agent_model,
        "env_model": env_model,
        "task_type": domain.name,
        "num_tasks": collection.num_tasks,
        "best_of_n": collection.best_of_n,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "max_turns": collection.max_turns,
        "agent_prompt": hash_rows([agent_prompt])[:16],
        "seed": seed,
    }
    if not scripted:
        settings |= {
            "user_prompt": hash_rows([human_prompt])[:16],
            "env_temperature": human.temperature,
            "env_max_tokens": human.max_tokens,
            "env_max_chars": human.max_chars,
            "retry_leaks": human.retry_leaks,
        }
    window = pages.window() if domain.draws_pages else {}
    folder = None if scripted else model_input(env_model)
    identity = domain.human_identity(human_name, env_model, human_prompt, human, env.request, window, folder)
    settings |= {**window, "human": identity}
    if critic is not None:
        settings |= {"candidates": sampling.n, "critic": critic.to_settings()}
    choices = {
        **{f"agent_{name}": value for name, value in agent.to_settings().items()},
        **{f"env_{name}": value for name, value in env.to_settings().items()},
        "agent_prefix": agent_prefix, "shard": collection.shard, "record_logprobs": collection.record_logprobs or None,
    }  # fmt: skip
    settings |= {name: value for name, value in choices.items() if value is not None}
    inputs = [input_path, collection.exclude, model_input(agent_model), domain.source]
    inputs += [folder]
    inputs += critic.inputs() if critic else []
    opened = open_run(output_path, settings, inputs, overwrite, _failed if retry_failed else None)
    with pushed(opened, push_to_hub) as output:
        if output.complete:
            print(f"already complete: {output_path}")
            _print(output.summary or {})
            return
        with contextlib.ExitStack() as resources:
            models = _models(domain, {"agent": (agent_model, agent), "human": (env_model, env)}, calls, resources)
            policy = PrefixedModel(models["agent"], agent_prefix) if agent_prefix else models["agent"]
            renderer = None
            if domain.draws_pages:
                renderer = resources.enter_context(pages.renderer(cache=PICTURES_KEPT))
            player = domain.make_human(env_model, models["human"], human_prompt, renderer, **vars(human))
            begin = domain.begin(agent_prompt, collection.max_turns)
            dialogue_setup = DialogueSetup(
                policy, player, begin, sampling, _choose(critic, player), domain.label_turn, identity,
                record_logprobs=collection.record_logprobs,
            )  # fmt: skip
            named = {name: model for name, model in models.items() if model is not None}
            if models["human"] is models["agent"]:
                named = {"agent and human": models["agent"]}
            summary = asyncio.run(collect(output, jobs, dialogue_setup, collection.concurrency, named))
        output.finish(summary)
        _print(summary)


def _check_on_policy(sampling: Sampling, agent_prefix: str | None) -> None:
    """Raise UserError unless what is sampled and played is the policy's own distribution."""
    changed = [
        name
        for name, differs in {
            "--temperature": sampling.temperature != 1, "--top_p": sampling.top_p != 1,
            "--candidates": sampling.n > 1, "--agent_prefix": bool(agent_prefix),
        }.items()
        if differs
    ]  # fmt: skip
    if changed:
        raise UserError(
            f"--record_logprobs is for policy gradients, which need dialogues of the policy itself; {changed[0]} "
            "samples from another distribution. Leave one of the two out."
        )


def _models(
    domain: Domain, sides: dict[str, tuple[str, ModelSettings]], calls: CallSettings, resources: contextlib.ExitStack
) -> dict[str, ChatModel | None]:
    """The models of both sides, the same one if their settings are equal; None for a scripted human."""
    cache = None
    if calls.cache:
        cache = CallCache(calls.cache)
        resources.callback(cache.close)
    loaded: dict[str, ChatModel | None] = {}
    for side, (name, settings) in sides.items():
        if side == "human" and name in domain.scripted_humans:
            loaded[side] = None
        elif side == "human" and _same(*sides.values()) and not domain.draws_pages:
            loaded[side] = loaded["agent"]
        else:
            loaded[side] = load_model(name, settings, calls, cache)
    return loaded


def _same(one: tuple[str, ModelSettings], other: tuple[str, ModelSettings]) -> bool:
    """Whether two sides can share a model. The tokenizer does not matter to the human."""
    return one[0] == other[0] and replace(one[1], tokenizer=None) == replace(other[1], tokenizer=None)


def _choose(critic: CriticSettings | None, human: Human) -> CandidateSelector | None:
    if critic is None:
        return None
    from sweet_rl.credit.best_of_n import BestCandidate  # imports torch, which dialogues between servers do not need
    from sweet_rl.credit.critics import load_critic

    scorer = load_critic(critic, human)
    return BestCandidate(scorer, getattr(scorer, "chat", None))


def _failed(row: dict) -> bool:
    return row.get("ending") == "failed"


def _print(summary: dict[str, Any]) -> None:
    print_summary(summary)
    if failed := summary.get("endings", {}).get("failed"):
        print(f"{failed} dialogues failed and count for nothing; --retry_failed plays them again.")


if __name__ == "__main__":
    run(main, released=SIMULATE)
