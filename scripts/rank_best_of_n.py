"""Step 5: ranks every turn's candidates; writes judge_result (best first) and judge_scores.

    python scripts/rank_best_of_n.py --model_id critic --input_path candidates.jsonl --output_path ranked.jsonl

    python scripts/rank_best_of_n.py --critic_type judge --model_id meta-llama/Llama-3.1-8B-Instruct \
        --hostname localhost:8000 --input_path candidates.jsonl --output_path judged.jsonl

The prompt of a turn is computed once for all its candidates. A killed run is continued by the same command.
"""

from __future__ import annotations

from sweet_rl.cli import run
from sweet_rl.cli.released import RANK
from sweet_rl.credit.critics import CriticSettings


def main(
    critic: CriticSettings,
    input_path: str,
    output_path: str,
    limit: int | None = None,
    shard: str | None = None,
    processes: int | None = None,
    overwrite: bool = False,
) -> None:
    """Rank candidates: by the advantage log pi_critic - log pi_reference, by a value head, or by a judge.

    Args:
        input_path: candidates of sample_best_of_n.py.
        output_path: the same records, ranked.
        limit: number of records that are read; default: all.
        shard: i/n: the i-th of n parts of the records, for one process per machine, each with its own output. The
            outputs one after the other (cat) are the output of one process.
        processes: that rank a part each; default: as many as the GPUs of this machine hold critics.
        overwrite: replace an output of other settings.
    """
    from sweet_rl.credit.ranking import rank_file

    rank_file(critic, input_path, output_path, limit, shard, overwrite, processes)


if __name__ == "__main__":
    run(main, released=RANK)
