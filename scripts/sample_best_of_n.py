"""Step 4: several candidates for every turn of the collected trajectories, from the policy, without privileged
information.

    python scripts/sample_best_of_n.py --model_id meta-llama/Llama-3.1-8B-Instruct \
        --data_path rewarded.jsonl --save_path candidates.jsonl --data_fraction 0.1

Reads trajectories of simulate_interactions.py and the released offline file. The same command continues a run that was
stopped.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated

from sweet_rl.cli import alias, prefix, print_summary, run
from sweet_rl.cli.released import SAMPLE
from sweet_rl.credit.candidates import sample_file, sample_tasks
from sweet_rl.errors import UserError
from sweet_rl.models import Sampling, load_model
from sweet_rl.models.load import model_input
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.records import Trajectory, read_records, without_excluded
from sweet_rl.runs.push import pushed
from sweet_rl.runs.run import open_run
from sweet_rl.runs.shards import shard_of

SAMPLING = Sampling(n=16)


def main(
    model_id: str,
    input_path: Annotated[str, alias("data_path")],
    output_path: Annotated[str, alias("save_path")],
    model: ModelSettings,
    calls: CallSettings,
    sampling: Annotated[Sampling, prefix("", n="best_of_n", seed=None)] = SAMPLING,
    data_fraction: float = 1.0,
    concurrency: int = 64,
    exclude: str | None = None,
    shard: str | None = None,
    seed: int = 0,
    overwrite: bool = False,
    push_to_hub: str | None = None,
) -> None:
    """Sample candidates for each turn.

    Args:
        model_id: the policy: `mini`, a checkpoint folder, a hub name, or a server's name for it.
        input_path: trajectories, JSONL. Failed dialogues are left out.
        output_path: candidates, JSONL, one line per turn.
        data_fraction: share of the tasks, a random sample, each with all its trajectories (paper: 0.1).
        concurrency: turns in progress at the same time.
        exclude: list of tasks to leave out, JSONL, as audit_tasks.py --exclude_path writes it.
        shard: i/n: the i-th of n parts of the trajectories; the parts' outputs, one after the other, are the whole.
        seed: of the sample of tasks and of the candidates.
        overwrite: replace an output of other settings.
        push_to_hub: repository on the hub, OWNER/NAME, to which the finished output is uploaded with a card.
    """
    if concurrency < 1:
        raise UserError(f"--concurrency is {concurrency}; it must be at least 1.")
    sampling = replace(sampling, seed=seed)
    read = without_excluded(read_records(input_path, Trajectory), exclude)
    trajectories = shard_of(sample_tasks(read, data_fraction, seed), shard)
    settings = {
        "model_id": model_id,
        "data_fraction": data_fraction,
        "best_of_n": sampling.n,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "seed": seed,
        **model.to_settings(),
        **({} if shard is None else {"shard": shard}),
    }
    opened = open_run(output_path, settings, [input_path, exclude, model_input(model_id)], overwrite)
    with pushed(opened, push_to_hub) as output:
        if output.complete:
            print(f"already complete: {output_path}")
            print_summary(output.summary or {})
            return
        policy = load_model(model_id, model, calls)
        counts = {
            "tasks": len({trajectory.task.id for trajectory in trajectories}),
            "trajectories": len(trajectories),
            "trajectories_read": len(read),
            "failed_dialogues_left_out": sum(trajectory.ending == "failed" for trajectory in trajectories),
        }
        summary = counts | asyncio.run(sample_file(output, trajectories, policy, sampling, concurrency))
        print_summary(summary)
        if failed := sum(summary["turns_failed"].values()):
            raise UserError(
                f"{failed} turns could not be sampled ({', '.join(summary['turns_failed'])}); the others are in "
                f"{output_path}. Run the same command again to sample them."
            )
        output.finish(summary)


if __name__ == "__main__":
    run(main, released=SAMPLE)
