"""Step 3: several candidates for every turn of the collected trajectories, from the actor, without the
answer's hint.

    python scripts/sample_best_of_n.py --model_id meta-llama/Llama-3.1-8B-Instruct \
        --data_path rewarded.jsonl --save_path candidates.jsonl --data_fraction 0.1

Works from our trajectories and from the released offline file. The same command continues a run that was
stopped.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from typing import Literal

from tqdm import tqdm

from sweet_rl.cli import print_summary, run
from sweet_rl.credit.candidates import Turn, sample_candidates, sample_tasks, turns_of
from sweet_rl.errors import UserError
from sweet_rl.models import ChatModel, ModelError, Sampling, load_model
from sweet_rl.models.cache import CallCache
from sweet_rl.models.load import model_input
from sweet_rl.records import Trajectory, TurnCandidates, read_records
from sweet_rl.rollout.play import as_they_finish
from sweet_rl.runs.run import Run, open_run
from sweet_rl.runs.shards import shard_of


def main(
    model_id: str,
    data_path: str | None = None,
    save_path: str | None = None,
    input_path: str | None = None,
    output_path: str | None = None,
    task_type: Literal["code", "html"] = "code",
    data_fraction: float = 1.0,
    best_of_n: int = 16,
    temperature: float = 1.0,
    top_p: float = 1.0,
    max_tokens: int = 1024,
    hostname: str | None = None,
    engine: Literal["auto", "transformers", "vllm", "openai"] = "auto",
    tokenizer: str | None = "auto",
    request: dict | None = None,
    api_key_variable: str = "OPENAI_API_KEY",
    timeout: float = 600.0,
    patience: float = 600.0,
    concurrency: int = 64,
    endpoint_concurrency: int = 256,
    shard: str | None = None,
    cache: str | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Samples candidates for each turn.

    Args:
        model_id: the actor: `mini`, a checkpoint folder, a hub name, or a server's name for it.
        data_path: trajectories, JSONL (--input_path means the same). Failed dialogues are passed over.
        save_path: candidates, JSONL, one line a turn (--output_path means the same).
        task_type: accepted for either domain; dialogues of both are sampled alike.
        data_fraction: share of the tasks, a seeded random sample, each with all its trajectories (paper:
            0.1).
        best_of_n: candidates per turn.
        hostname: server of the actor (host, host:port or URL; several separated by commas; @FILE with one a line);
            without one it runs in this process.
        tokenizer: for an actor on a server: where its tokenizer is.
        request: fields of the request body for an actor on a server, above all others; null leaves one out.
        api_key_variable: environment variable with the key of the actor's server.
        timeout: seconds that one call to a server may take.
        patience: seconds without any server that answers after which the run stops, to be continued later.
        concurrency: turns under way at once.
        endpoint_concurrency: calls under way at once to one server.
        shard: i/n: the i-th of n parts of the trajectories; the parts' outputs, one after the other, are the whole.
        cache: folder in which model calls are kept and looked up.
    """
    source, target = (
        _one("data_path", data_path, "input_path", input_path),
        _one("save_path", save_path, "output_path", output_path),
    )
    at_least_one = {"concurrency": concurrency, "endpoint_concurrency": endpoint_concurrency, "best_of_n": best_of_n}
    for name, value in at_least_one.items():
        if value < 1:
            raise UserError(f"--{name} is {value}; it must be at least 1.")
    sampling = Sampling(temperature, top_p, max_tokens, n=best_of_n, seed=seed)
    read = read_records(source, Trajectory)
    trajectories = shard_of(sample_tasks(read, data_fraction, seed), shard)
    settings = {
        "model_id": model_id,
        "data_fraction": data_fraction,
        "best_of_n": best_of_n,
        "temperature": temperature,
        "top_p": top_p,
        "max_tokens": max_tokens,
        "seed": seed,
    }
    settings |= {name: value for name, value in {"request": request, "shard": shard}.items() if value is not None}
    with open_run(target, settings, [source, model_input(model_id)], overwrite) as output:
        if output.complete:
            print(f"already complete: {target}")
            print_summary(output.summary or {})
            return
        model = load_model(
            model_id, engine, hostname, tokenizer, os.environ.get(api_key_variable), timeout=timeout, patience=patience,
            concurrency=endpoint_concurrency, request=request, cache=CallCache(cache) if cache else None,
        )  # fmt: skip
        counts = {
            "tasks": len({trajectory.task.id for trajectory in trajectories}),
            "trajectories": len(trajectories),
            "trajectories_read": len(read),
            "failed_dialogues_left_out": sum(trajectory.ending == "failed" for trajectory in trajectories),
        }
        summary = counts | asyncio.run(_sample(output, trajectories, model, sampling, concurrency))
        print_summary(summary)
        if failed := sum(summary["turns_failed"].values()):
            raise UserError(
                f"{failed} turns could not be sampled ({', '.join(summary['turns_failed'])}); the others are in "
                f"{target}. Run the same command again to sample them."
            )
        output.finish(summary)


async def _sample(
    output: Run, trajectories: list[Trajectory], model: ChatModel, sampling: Sampling, concurrency: int
) -> dict:
    start, tokens, failures = time.monotonic(), 0, Counter()

    async def work(turn: Turn) -> TurnCandidates | ModelError:
        try:
            return await sample_candidates(turn, model, sampling)
        except ModelError as error:
            if error.kind == "auth":
                raise UserError(f"the server refuses the key or the model: {error}") from error
            return error

    total = sum(
        message["role"] == "assistant"
        for trajectory in trajectories
        if trajectory.ending != "failed"
        for message in trajectory.dialogue_history
    )
    try:
        await model.check()
        waiting = (
            turn for trajectory in trajectories for turn in turns_of(trajectory, model) if turn.id not in output.done
        )
        with tqdm(total=total, initial=len(output.done), desc="turns", unit="turn", mininterval=1.0) as bar:
            async for result in as_they_finish(waiting, work, concurrency):
                if isinstance(result, ModelError):
                    failures[result.kind] += 1
                else:
                    output.write(result.to_dict())
                    tokens += sum(map(len, result.additional_token_ids or []))
                bar.update()
    finally:
        await model.close()
    seconds = time.monotonic() - start
    reasons = Counter()
    for row in output.records():
        reasons.update(row.get("additional_finish_reasons") or [])
    return {
        "turns": len(output.done),
        "candidates": sum(reasons.values()),
        "finish_reasons": dict(sorted(reasons.items())),
        "turns_failed": dict(sorted(failures.items())),
        "seconds": round(seconds, 1),
        "tokens_per_second": round(tokens / seconds, 1) if seconds else 0.0,
    } | getattr(model, "summary", dict)()


def _one(name: str, value: str | None, other: str, other_value: str | None) -> str:
    """The path given under one of its two names."""
    if value is not None and other_value is not None and value != other_value:
        raise UserError(f"--{name} ({value}) and --{other} ({other_value}) mean the same thing; give one of them.")
    path = value if value is not None else other_value
    if path is None:
        raise UserError(f"missing: --{name} (no default). See --help.")
    return path


if __name__ == "__main__":
    run(main)
