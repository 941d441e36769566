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
import time
from collections.abc import Iterator
from typing import Literal

from tqdm import tqdm

from sweet_rl.cli import print_summary, run
from sweet_rl.environments import task_types
from sweet_rl.errors import UserError
from sweet_rl.models import ChatModel, Sampling, load_model
from sweet_rl.models.load import model_input
from sweet_rl.prompts import load_prompt
from sweet_rl.records import Task, hash_rows, read_records
from sweet_rl.rollout import Collaboration, play_all, summarise, trajectory_id
from sweet_rl.runs import Run, open_run

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
    user_prompt_path: str | None = None,
    agent_engine: Literal["auto", "transformers", "vllm", "openai"] = "auto",
    env_engine: Literal["auto", "transformers", "vllm", "openai"] = "auto",
    agent_tokenizer: str | None = "auto",
    timeout: float = 600.0,
    browser: Literal["chromium", "firefox"] | None = None,
    browser_workers: int = 2,
    page_width: int = 1280,
    page_height: int = 720,
    page_timeout: float = 15.0,
    concurrency: int = 256,
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Simulates dialogues.

    Args:
        agent_model: the agent: `mini`, a checkpoint folder, a hub name, or a server's name for it.
        env_model: the simulated human: `mini` (code) or `designer` (html) for a scripted one, else a model as above.
        input_path: tasks, JSONL.
        output_path: trajectories, JSONL; a manifest is written beside it.
        hostname: server of the simulated human (host, host:port or URL; several separated by commas).
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
        user_prompt_path: template with {problem_description}, {ground_truth} and {dialogue}; likewise.
        agent_tokenizer: for an agent on a server: where its tokenizer is; `none` if it is not to be had.
        timeout: seconds that one call to a server may take.
        browser: what draws pages for the human (html): chromium or firefox; the first one found by default.
        browser_workers: browsers at once (html).
        page_width: of the window in which pages are drawn, in pixels (html); grade pages in the same one.
        page_height: of that window; a longer page makes a longer picture.
        page_timeout: seconds that drawing a page may take (html).
        concurrency: dialogues under way at once.
    """
    for name, value in {"best_of_n": best_of_n, "max_turns": max_turns, "concurrency": concurrency}.items():
        if value < 1:
            raise UserError(f"--{name} is {value}; it must be at least 1.")
    if num_tasks is not None and num_tasks < 1:
        raise UserError(f"--num_tasks is {num_tasks}; it must be at least 1 (leave it out for all tasks).")
    sampling = Sampling(temperature, top_p, max_tokens, seed=seed)
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
    inputs = [input_path, model_input(agent_model), None if scripted else model_input(env_model)]
    with open_run(output_path, settings, inputs, overwrite) as output:
        if output.complete:
            print(f"already complete: {output_path}")
            print_summary(output.summary or {})
            return
        key = os.environ.get("OPENAI_API_KEY")
        agent = load_model(agent_model, agent_engine, agent_hostname, agent_tokenizer, key, timeout=timeout)
        same_model = (env_model, env_engine, hostname) == (agent_model, agent_engine, agent_hostname)
        if scripted:
            human_model = None
        elif same_model and not domain.draws_pages:
            human_model = agent
        else:
            human_model = load_model(env_model, env_engine, hostname, None, key, timeout=timeout)
        with contextlib.ExitStack() as until_done:
            renderer = None
            if domain.draws_pages:
                from sweet_rl.grading.browser import PageRenderer

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
            begin = domain.begin(agent_prompt, max_turns)
            collaboration = Collaboration(agent, human, begin, sampling)
            summary = asyncio.run(_collect(output, tasks, best_of_n, collaboration, concurrency, human_model))
        output.finish(summary)
        print_summary(summary)


async def _collect(
    output: Run,
    tasks: list[Task],
    samples: int,
    collaboration: Collaboration,
    concurrency: int,
    human_model: ChatModel | None,
) -> dict:
    models = [collaboration.agent, *([human_model] if human_model not in (None, collaboration.agent) else [])]
    total, before, start = len(tasks) * samples, len(output.done), time.monotonic()

    def missing() -> Iterator[tuple[Task, int]]:
        for task in tasks:
            for sample in range(samples):
                if trajectory_id(task, sample) not in output.done:
                    yield task, sample

    try:
        for model in models:
            await model.check()
        with tqdm(total=total, initial=before, desc="dialogues", unit="dialogue", mininterval=1.0) as bar:
            failed = 0
            async for trajectory in play_all(missing(), collaboration, concurrency):
                output.write(trajectory.to_dict())
                failed += trajectory.ending == "failed"
                bar.set_postfix(failed=failed, refresh=False)
                bar.update()
    finally:
        for model in models:
            await model.close()
    return summarise(output.records(), time.monotonic() - start, len(output.done) - before)


if __name__ == "__main__":
    run(main)
