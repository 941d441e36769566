"""Step 1: dialogues between the agent and a simulated human, as trajectories.

The tiny agent and its scripted human, no download:

    python scripts/simulate_interactions.py --agent_model mini --env_model mini \
        --input_path tasks.jsonl --output_path trajectories.jsonl --best_of_n 3

An agent and a human on servers (`vllm serve MODEL` on each):

    python scripts/simulate_interactions.py \
        --agent_model meta-llama/Llama-3.1-8B-Instruct --agent_hostname localhost:8001 \
        --env_model meta-llama/Llama-3.1-70B-Instruct --hostname localhost:8000 \
        --input_path train.jsonl --output_path trajectories.jsonl --best_of_n 3

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
import os
from typing import Literal

from sweet_rl import domains as task_types
from sweet_rl.cli import print_summary, run
from sweet_rl.errors import UserError
from sweet_rl.models import Sampling, load_model
from sweet_rl.models.cache import CallCache
from sweet_rl.models.load import model_input
from sweet_rl.models.prefixed import PrefixedModel
from sweet_rl.prompts import load_prompt
from sweet_rl.records import Task, hash_rows, read_records
from sweet_rl.rollout.collect import collect
from sweet_rl.rollout.play import Collaboration
from sweet_rl.runs.run import open_run
from sweet_rl.runs.shards import shard_of

PAGES_KEPT = 1024  # pictures, so that a reference page is not drawn anew at every turn


def main(
    agent_model: str,
    env_model: str,
    input_path: str,
    output_path: str,
    hostname: str | None = None,
    agent_hostname: str | None = None,
    task_type: str = "code",
    num_tasks: int | None = None,
    best_of_n: int = 1,
    to_continue: bool = False,
    temperature: float = 1.0,
    top_p: float = 1.0,
    max_tokens: int = 1024,
    max_turns: int = 10,
    env_temperature: float = 0.0,
    env_max_tokens: int = 256,
    env_max_chars: int | None = None,
    retry_leaks: bool = True,
    agent_prompt_path: str | None = None,
    agent_prefix: str | None = None,
    user_prompt_path: str | None = None,
    agent_engine: Literal["auto", "transformers", "vllm", "openai"] = "auto",
    env_engine: Literal["auto", "transformers", "vllm", "openai"] = "auto",
    agent_tokenizer: str | None = "auto",
    critic: str | None = None,
    candidates: int = 1,
    critic_type: str = "log_ratio",
    critic_reference: str = "seed",
    critic_reference_model_id: str | None = None,
    critic_no_prompt: bool = False,
    critic_normalize: str = "turn",
    critic_bf16: bool = False,
    critic_hostname: str | None = None,
    agent_request: dict | None = None,
    env_request: dict | None = None,
    agent_api_key_variable: str = "OPENAI_API_KEY",
    api_key_variable: str = "OPENAI_API_KEY",
    timeout: float = 600.0,
    browser: Literal["chromium", "firefox"] | None = None,
    browser_workers: int = 2,
    page_width: int = 1280,
    page_height: int = 720,
    page_timeout: float = 15.0,
    patience: float = 600.0,
    concurrency: int = 256,
    endpoint_concurrency: int = 256,
    shard: str | None = None,
    cache: str | None = None,
    retry_failed: bool = False,
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Simulates dialogues.

    Args:
        agent_model: the agent: `mini`, a checkpoint folder, a hub name, or a server's name for it.
        env_model: the simulated human: `mini` (code) or `designer` (html) for a scripted one, else a model as above.
        input_path: tasks, JSONL.
        output_path: trajectories, JSONL; a manifest is written beside it.
        hostname: server of the simulated human (host, host:port or URL; several separated by commas; @FILE with one
            a line, which may change while the run goes on).
        agent_hostname: server of the agent; without one it runs in this process.
        num_tasks: the first so many tasks; all by default.
        best_of_n: dialogues per task.
        to_continue: accepted for older command lines; a stopped run is continued in any case.
        max_tokens: of one message of the agent.
        max_turns: messages of the agent in one dialogue.
        task_type: the domain: its rules, prompts and human: code (Backend Programming) or html (Frontend Design).
        env_max_chars: the human's replies are cut at a sentence's end within this length; the paper's by default.
        retry_leaks: ask the human again where a reply gives the reference solution away (--noretry_leaks to
            let it).
        agent_prompt_path: template with {problem_description} and, if wanted, {max_turns}; the task type's by default.
        agent_prefix: text that each of the agent's replies begins with (to answer at once: 'I WANT TO ANSWER:').
        user_prompt_path: template with {problem_description}, {ground_truth} and {dialogue}; likewise.
        agent_tokenizer: for an agent on a server: where its tokenizer is; `none` if it is not to be had.
        critic: acts at each turn: the best of `candidates` by its advantage is played (Figure 3a of the paper).
        critic_type: as `--critic_type` of rank_best_of_n.py; likewise the flags that follow.
        agent_request: fields of the request body for an agent on a server, above all others; null leaves one out:
            '{"temperature": null, "reasoning_effort": "low"}'. env_request likewise for the human.
        agent_api_key_variable: environment variable with the key of the agent's server; api_key_variable the human's.
        timeout: seconds that one call to a server may take.
        browser: what draws pages for the human (html): chromium or firefox; the first one found by default.
        browser_workers: browsers at once (html).
        page_width: of the window in which pages are drawn, in pixels (html); grade pages in the same one.
        page_height: of that window; a longer page makes a longer picture.
        page_timeout: seconds that drawing a page may take (html).
        patience: seconds without any server that answers after which the run stops, to be continued later.
        concurrency: dialogues under way at once.
        endpoint_concurrency: calls under way at once to one server.
        shard: i/n: the i-th of n parts of the dialogues; the parts' outputs, one after the other, are the whole.
        cache: folder in which model calls are kept and looked up.
        retry_failed: plays the dialogues again that are recorded as failed.
    """
    at_least_one = {
        "best_of_n": best_of_n, "max_turns": max_turns, "candidates": candidates, "concurrency": concurrency,
        "endpoint_concurrency": endpoint_concurrency,
    }  # fmt: skip
    for name, value in at_least_one.items():
        if value < 1:
            raise UserError(f"--{name} is {value}; it must be at least 1.")
    if num_tasks is not None and num_tasks < 1:
        raise UserError(f"--num_tasks is {num_tasks}; it must be at least 1 (leave it out for all tasks).")
    if candidates > 1 and critic is None:
        raise UserError(f"--candidates is {candidates}: with several a turn, --critic must say who chooses among them.")
    sampling = Sampling(temperature, top_p, max_tokens, n=candidates, seed=seed)
    domain = task_types.task_type(task_type)
    agent_prompt_path = agent_prompt_path or domain.agent_prompts.get(agent_model, domain.agent_prompt)
    agent_prompt = load_prompt(agent_prompt_path, ["problem_description"], ["max_turns"])
    user_prompt = load_prompt(user_prompt_path or domain.user_prompt, domain.user_prompt_values)
    tasks = read_records(input_path, Task, limit=num_tasks)
    scripted = env_model in domain.scripted
    if scripted:
        domain.scripted[env_model].check_tasks(tasks, input_path)
    if domain.draws_pages and not scripted and not hostname and env_engine != "openai":
        raise UserError(
            f"--env_model {env_model} plays a human who sees pictures, which only a server shows it: give --hostname, "
            f"the server of a vision model{''.join(f', or --env_model {name}' for name in domain.scripted)}."
        )
    settings = {
        "agent_model": agent_model,
        "env_model": env_model,
        "task_type": task_type,
        "num_tasks": num_tasks,
        "best_of_n": best_of_n,
        "temperature": temperature,
        "top_p": top_p,
        "max_tokens": max_tokens,
        "max_turns": max_turns,
        "agent_prompt": hash_rows([agent_prompt])[:16],
        "seed": seed,
    }
    if not scripted:
        env_max_chars = env_max_chars or domain.max_chars
        settings |= {
            "user_prompt": hash_rows([user_prompt])[:16],
            "env_temperature": env_temperature,
            "env_max_tokens": env_max_tokens,
            "env_max_chars": env_max_chars,
            "retry_leaks": retry_leaks,
        }
    if domain.draws_pages:
        settings |= {"browser": browser, "page_width": page_width, "page_height": page_height}
    choices = {"agent_request": agent_request, "env_request": env_request, "agent_prefix": agent_prefix}
    for name, value in choices.items():
        if value is not None:
            settings[name] = value
    judge = None
    if critic is not None:
        from sweet_rl.credit.critics import CriticSettings, load_critic  # torch: not for dialogues between servers

        judge = CriticSettings(
            critic,
            critic_type,
            no_prompt=critic_no_prompt,
            reference=critic_reference,
            reference_model_id=critic_reference_model_id,
            normalize=critic_normalize,
            bf16=critic_bf16,
            hostname=critic_hostname,
            seed=seed,
        )
        settings |= {"candidates": candidates, "critic": judge.to_settings()}
    inputs = [input_path, model_input(agent_model), None if scripted else model_input(env_model)]
    inputs += judge.inputs() if judge else []
    jobs = shard_of([(task, sample) for task in tasks for sample in range(best_of_n)], shard)
    if shard is not None:
        settings["shard"] = shard
    with open_run(output_path, settings, inputs, overwrite, _failed if retry_failed else None) as output:
        if output.complete:
            print(f"already complete: {output_path}")
            print_summary(output.summary or {})
            _mention_failed(output.summary or {})
            return
        calls = CallCache(cache) if cache else None
        served = {"timeout": timeout, "concurrency": endpoint_concurrency, "patience": patience, "cache": calls}
        agent = load_model(
            agent_model, agent_engine, agent_hostname, agent_tokenizer, os.environ.get(agent_api_key_variable),
            request=agent_request, **served,
        )  # fmt: skip
        models, human_model = {"agent": agent}, None
        if not scripted:
            same = (env_model, env_engine, hostname, env_request, api_key_variable)
            other = (agent_model, agent_engine, agent_hostname, agent_request, agent_api_key_variable)
            if same == other and not domain.draws_pages:
                human_model = agent
                models = {"agent and human": agent}
            else:
                key = os.environ.get(api_key_variable)
                human_model = load_model(env_model, env_engine, hostname, None, key, request=env_request, **served)
                models["human"] = human_model
        with contextlib.ExitStack() as until_done:
            if calls is not None:
                until_done.callback(calls.close)
            renderer = None
            if domain.draws_pages:
                from sweet_rl.rendering.renderer import PageRenderer

                renderer = until_done.enter_context(
                    PageRenderer(
                        browser_workers, browser, page_width, page_height, timeout=page_timeout, cache=PAGES_KEPT
                    )
                )
            human = domain.make_human(
                env_model,
                human_model,
                user_prompt,
                renderer,
                max_chars=env_max_chars,
                retry_leaks=retry_leaks,
                temperature=env_temperature,
                max_tokens=env_max_tokens,
            )
            choose = None
            if judge is not None:
                from sweet_rl.credit.acting import BestCandidate

                scorer = load_critic(judge)
                choose = BestCandidate(scorer, getattr(scorer, "chat", None))
            speaker = PrefixedModel(agent, agent_prefix) if agent_prefix else agent
            collaboration = Collaboration(speaker, human, domain.begin(agent_prompt, max_turns), sampling, choose)
            summary = asyncio.run(collect(output, jobs, collaboration, concurrency, models))
        output.finish(summary)
        print_summary(summary)
        _mention_failed(summary)


def _failed(row: dict) -> bool:
    return row.get("ending") == "failed"


def _mention_failed(summary: dict) -> None:
    if failed := summary.get("endings", {}).get("failed"):
        print(f"{failed} dialogues failed and count for nothing; --retry_failed plays them again.")


if __name__ == "__main__":
    run(main)
