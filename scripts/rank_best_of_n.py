"""Step 5: orders every turn's candidates; writes judge_result (best first) and judge_scores.

    python scripts/rank_best_of_n.py --model_id critic --input_path candidates.jsonl --output_path ranked.jsonl

    python scripts/rank_best_of_n.py --critic_type judge --model_id meta-llama/Llama-3.1-8B-Instruct \
        --hostname localhost:8000 --input_path candidates.jsonl --output_path judged.jsonl

The prompt of a turn is computed once for all its candidates. A killed run is continued by the same command.
"""

from __future__ import annotations

import os

from sweet_rl.cli import run


def main(
    model_id: str,
    input_path: str,
    output_path: str,
    critic_type: str = "log_ratio",
    reference: str = "seed",
    reference_model_id: str | None = None,
    no_prompt: bool = False,
    normalize: str = "turn",
    bf16: bool = False,
    token_budget: int = 16384,
    hostname: str | None = None,
    engine: str = "auto",
    judge_prompt_path: str = "judge.txt",
    concurrency: int = 64,
    limit: int | None = None,
    shard: str | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Rank candidates: by the advantage log pi_critic - log pi_reference, by a value head, or by a judge.

    Args:
        model_id: the critic; directory or hub name, for a judge also a server's name for it
        input_path: candidates of sample_best_of_n.py
        critic_type: log_ratio (SWEET-RL's), value (a model of train_value.py) or judge (a language model is asked
            for the better one of two, in both orders; knockout over the candidates)
        reference: seed (the model that the critic was trained from, given the reference solution too: the
            paper) or sampled (the log-probs of sampling, without it: as released)
        reference_model_id: the seed model; default: what the critic's manifest says it was trained from
        no_prompt: rank without the reference solution
        normalize: turn or trajectory (mean over the turn's tokens), none (sum)
        token_budget: tokens that go through the model at once
        hostname: server of the judge (several separated by commas); without one it runs in this process
        engine: auto, transformers, or vllm, which scores each candidate's whole text; for a judge also openai (the
            hosted API, key in OPENAI_API_KEY)
        judge_prompt_path: template with {dialogue}, {first}, {second} and, if wanted, {ground_truth}
        concurrency: turns under judgement at once
        shard: i/n, the i-th of n parts of the records: one process a GPU, each with its own output, which one after
            the other (cat) are the output of one process
        seed: of the judge's brackets and of matches that it calls equal
    """
    from sweet_rl.credit.critics import CriticSettings
    from sweet_rl.credit.rank_file import rank_file

    critic = CriticSettings(
        model_id,
        critic_type,
        hint=not no_prompt,
        reference=reference,
        reference_model_id=reference_model_id,
        normalize=normalize,
        bf16=bf16,
        token_budget=token_budget,
        hostname=hostname,
        engine=engine,
        prompt_path=judge_prompt_path,
        api_key=os.environ.get("OPENAI_API_KEY"),
        seed=seed,
        calls_at_once=concurrency,
    )
    rank_file(critic, input_path, output_path, limit, shard, overwrite)


if __name__ == "__main__":
    run(main)
