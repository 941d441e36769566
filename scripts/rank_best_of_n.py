"""Step 5: ranks every turn's candidates; writes judge_result (best first) and judge_scores.

    python scripts/rank_best_of_n.py --model_id critic --input_path candidates.jsonl --output_path ranked.jsonl

    python scripts/rank_best_of_n.py --critic_type judge --model_id meta-llama/Llama-3.1-8B-Instruct \
        --hostname localhost:8000 --input_path candidates.jsonl --output_path judged.jsonl

Any language model, without training (docs/critics.md):

    python scripts/rank_best_of_n.py --critic_type pmi --model_id meta-llama/Llama-3.1-8B-Instruct \
        --input_path candidates.jsonl --output_path ranked.jsonl
    python scripts/rank_best_of_n.py --critic_type belief_gain --model_id mini \
        --reply --env_model mini --task_type mini --input_path candidates.jsonl --output_path ranked.jsonl

The prompt of a turn is computed once for all its candidates. A killed run is continued by the same command.
"""

from __future__ import annotations

from typing import Annotated

from lab.critics.asked_human import AskedSettings
from sweet_rl.cli import prefix, run
from sweet_rl.cli.released import RANK
from sweet_rl.credit.critics import CriticSettings
from sweet_rl.domains import HumanSettings
from sweet_rl.models.settings import ModelSettings
from sweet_rl.task_types import load_domain


def main(
    critic: CriticSettings,
    input_path: str,
    output_path: str,
    asked: AskedSettings,
    env: Annotated[ModelSettings, prefix("env_", tokenizer=None)],
    human: Annotated[HumanSettings, prefix("env_")],
    limit: int | None = None,
    shard: str | None = None,
    processes: int | None = None,
    overwrite: bool = False,
) -> None:
    """Rank candidates: by log-ratios, a value head, or a judge.

    Args:
        input_path: candidates of sample_best_of_n.py.
        output_path: the same records, ranked.
        limit: number of records that are read; default: all.
        shard: i/n: the i-th of n parts of the records, for one process per machine, each with its own output. The
            outputs one after the other (cat) are the output of one process.
        processes: Number of processes that rank a part each; by default as many as the GPUs hold critics.
        overwrite: replace an output of other settings.
    """
    from sweet_rl.credit.ranking import rank_file

    player = asked.human(load_domain, env, human)
    rank_file(critic, input_path, output_path, limit, shard, overwrite, processes, player)


if __name__ == "__main__":
    run(main, released=RANK)
