"""Look at dialogues, their grades and their credit, as one HTML file or served from this machine.

    python visualizers/visualize_dialogue_histories.py --input_path rewarded.jsonl --output dialogues.html
    python visualizers/visualize_dialogue_histories.py --input_path rewarded.jsonl --critic runs/tour/critic
    python visualizers/visualize_dialogue_histories.py --input_path ranked.jsonl --pair_path turn_pairs.jsonl
    python visualizers/visualize_dialogue_histories.py --input_path a.jsonl --compare_path b.jsonl --names before,after
    python visualizers/visualize_dialogue_histories.py --input_path large.jsonl --serve

The input is any file of the pipeline, or of the release: trajectories, graded or not; candidates, ranked or not; pairs.
The HTML file needs no network and no server. Nothing in it runs but its own script.
"""

from sweet_rl.cli import run


def main(
    input_path: str,
    output: str | None = None,
    serve: bool = False,
    port: int = 8765,
    compare_path: str | None = None,
    names: list[str] | None = None,
    critic: str | None = None,
    reference: str = "seed",
    reference_model_id: str | None = None,
    no_prompt: bool = False,
    normalize: str = "turn",
    response_template: str | None = None,
    credit_path: str | None = None,
    ranked_path: str | None = None,
    pair_path: str | None = None,
    bf16: bool = False,
    token_budget: int = 16384,
    limit: int | None = None,
    overwrite: bool = False,
) -> None:
    """Make a page of a file's dialogues, candidates or pairs.

    Args:
        input_path: trajectories, candidates or pairs (JSONL); which, is seen from its fields
        output: the HTML file; default: the input's name with .html
        serve: no file; read rows when they are asked for, on 127.0.0.1
        port: of --serve; 0 takes a free one
        compare_path: a second run on the same tasks, shown beside the first
        names: of the two runs, separated by a comma; default: the files' names
        critic: a critic (directory or hub name): the advantage of every turn, the log-ratio of every token
        reference: what the critic is compared with: seed (its seed model, shown the solution too) or sampled (without
            the solution; candidates: the log-probs of sampling)
        reference_model_id: the seed model; default: what the critic's manifest says
        no_prompt: the critic is not shown the reference solution
        normalize: turn (mean over a turn's tokens) or none (sum)
        response_template: markup before the agent's replies, for released trajectories with --critic
        credit_path: where the critic's figures are kept, so that they are computed once; default: beside the output
        ranked_path: ranked candidates of these trajectories, shown at their turns
        pair_path: turn pairs drawn from the ranked candidates: which were chosen and rejected
        bf16: run the critic in bfloat16.
        token_budget: tokens that go through the critic at once
        limit: the first records only
        overwrite: replace an output that holds something else
    """
    from sweet_rl.viewer.credit_file import CreditSettings
    from sweet_rl.viewer.show import open_collection, output_of, show

    page = output_of(input_path, output, serve)
    credit = None
    if critic is not None:
        hint = not no_prompt
        credit = CreditSettings(
            critic, reference, reference_model_id, hint, normalize, response_template, bf16, token_budget
        )
        credit_path = credit_path or f"{page}.credit.jsonl"
    collection = open_collection(
        input_path, compare_path, names, credit, credit_path, ranked_path, pair_path, limit, overwrite
    )
    show(collection, page, serve, port, overwrite)


if __name__ == "__main__":
    run(main)
