"""Orders every turn's candidates by the critic's advantage; writes judge_result (best first) and
judge_scores.

    python scripts/rank_best_of_n.py --model_id critic --input_path candidates.jsonl --output_path
    ranked.jsonl

The prompt of a turn is computed once for all its candidates. A killed run is continued by the same command.
"""

from __future__ import annotations

from sweet_rl.cli import run


def main(
    model_id: str,
    input_path: str,
    output_path: str,
    reference: str = "seed",
    reference_model_id: str | None = None,
    no_prompt: bool = False,
    normalize: str = "turn",
    bf16: bool = False,
    token_budget: int = 16384,
    limit: int | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Rank candidates by the advantage log pi_critic - log pi_reference.

    Args:
        model_id: the critic; directory or hub name
        input_path: candidates of sample_best_of_n.py
        reference: seed (the model that the critic was trained from, given the reference solution too: the
            paper) or sampled (the log-probs of sampling, without it: as released)
        reference_model_id: the seed model; default: what the critic's manifest says it was trained from
        no_prompt: rank without the reference solution
        normalize: turn or trajectory (mean over the turn's tokens), none (sum)
        token_budget: tokens that go through the model at once
    """
    from sweet_rl.credit.rank_file import rank_file

    rank_file(
        model_id,
        input_path,
        output_path,
        reference,
        reference_model_id,
        hint=not no_prompt,
        normalize=normalize,
        bf16=bf16,
        token_budget=token_budget,
        limit=limit,
        seed=seed,
        overwrite=overwrite,
    )


if __name__ == "__main__":
    run(main)
