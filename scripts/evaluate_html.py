"""Step 2 for Frontend Design: how alike each answer and its reference page look, and trajectory pairs.

    python scripts/evaluate_html.py --input_path trajectories.jsonl --output_path graded.jsonl \
        --preference_path pairs.jsonl --ground_truth_preference_path hinted_pairs.jsonl

    python scripts/evaluate_html.py --input_path test.jsonl --output_path graded.jsonl --baseline other.graded.jsonl

The reward is the cosine similarity of the image embeddings of the two full-page screenshots (CLIP ViT-B/32 where its
weights can be had; the encoder is named in every row). Pages get no network. The input is never changed; the same
command continues a run that was stopped.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tqdm import tqdm

from sweet_rl.analysis.comparison import compare
from sweet_rl.analysis.report import summarise, summary_text
from sweet_rl.analysis.statistics import check_k
from sweet_rl.cli import one_of, run
from sweet_rl.credit.pair_files import check_apart, check_texts, write_pairs
from sweet_rl.errors import UserError
from sweet_rl.records import Task, Trajectory, read_records
from sweet_rl.rendering.renderer import PageRenderer
from sweet_rl.rewards.embedding_cache import EmbeddingCache
from sweet_rl.rewards.encoders import load_encoder
from sweet_rl.rewards.evaluate import first_tasks, reference_answers
from sweet_rl.rewards.evaluate_pages import best_of_tasks, grade_page_trajectories
from sweet_rl.rewards.graded_file import GradedFile, check_comparable, grader_of, read_graded
from sweet_rl.rewards.html import PageGrader
from sweet_rl.runs.run import check_output, open_run

EMBEDDINGS = Path.home() / ".cache" / "sweet_rl" / "embeddings"


def main(
    output_path: str,
    input_path: str | None = None,
    data_path: str | None = None,
    k: int = 1,
    preference_path: str | None = None,
    ground_truth_preference_path: str | None = None,
    best_path: str | None = None,
    min_gap: float = 0.1,
    baseline: str | None = None,
    num_tasks: int | None = None,
    tokenizer: str | None = None,
    agent_model: str | None = None,
    response_template: str | None = None,
    eos_text: str | None = None,
    bos_text: str | None = None,
    grade_references: bool = False,
    image_encoder: str | None = None,
    device: str | None = None,
    dtype: str = "float32",
    browser: str | None = None,
    browser_workers: int = 2,
    page_width: int = 1280,
    page_height: int = 720,
    page_timeout: float = 15.0,
    javascript: bool = False,
    embedding_cache: str | None = str(EMBEDDINGS),
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Grade frontend trajectories (or, with --grade_references, the reference pages of a tasks file).

    Args:
        output_path: graded trajectories, one per line, with reward and grade {similarity, encoder, failure, ...}.
        input_path: trajectories of simulate_interactions.py --task_type html, or a released file.
        data_path: another name for input_path.
        k: also print best of k; it must divide the number of dialogues of every task.
        preference_path: write trajectory pairs here, without the reference page (multi-turn DPO).
        ground_truth_preference_path: write them with the reference page's HTML after the BOS (the critic).
        best_path: write each task's best dialogue here (rejection fine-tuning with --min_reward 0).
        min_gap: siblings whose rewards are at least so far apart make a pair (paper: 0.1).
        baseline: graded file of another run on the same tasks: print the win rate against it.
        num_tasks: grade only the first so many tasks.
        tokenizer: the agent's model or tokenizer; needed for pairs of trajectories that carry no parts.
        agent_model: another name for tokenizer.
        response_template: what stands before each turn of the agent in released texts.
        eos_text: what ends a turn in released texts (default: the tokenizer's).
        bos_text: what begins a dialogue in released texts (default: the tokenizer's).
        grade_references: the input is a tasks file; its reference pages are graded as answers.
        image_encoder: hub name or folder of a vision model, or efficientnet-lite0. By default CLIP ViT-B/32
            (openai/clip-vit-base-patch32), or efficientnet-lite0 where its weights cannot be had.
        device: of the encoder; default the GPU where there is one.
        dtype: of the encoder: float32, bfloat16 or float16.
        browser: chromium or firefox; default the first one found.
        browser_workers: browsers at once.
        page_width: of the window in which pages are drawn, in pixels.
        page_height: of that window; a longer page makes a longer picture.
        page_timeout: seconds that drawing a page may take.
        javascript: let the pages' own scripts run.
        embedding_cache: folder in which embeddings of reference pages are kept (none: only in memory).
        seed: of the bootstrap.
        overwrite: replace the outputs.
    """
    source = one_of(input_path=input_path, data_path=data_path)
    if source is None:
        raise UserError("missing: --input_path (the trajectories to grade). See --help.")
    others = (preference_path, ground_truth_preference_path, best_path)
    check_apart(source, output_path, *others, baseline)
    for path in filter(None, others):
        check_output(path, overwrite)
    if min_gap <= 0:
        raise UserError(f"--min_gap is {min_gap}; it must be above 0.")
    if grade_references:
        trajectories = reference_answers(read_records(source, Task))
    else:
        trajectories = read_records(source, Trajectory)
    trajectories = first_tasks(trajectories, num_tasks)
    if all(trajectory.task.test_cases for trajectory in trajectories):
        raise UserError(f"{source}: its tasks have test_cases. Backend trajectories are graded by evaluate_code.py.")
    check_k(Counter(trajectory.task.id for trajectory in trajectories), k)
    chat = _chat(one_of(tokenizer=tokenizer, agent_model=agent_model))
    texts = {"chat": chat, "response_template": response_template, "eos_text": eos_text, "bos_text": bos_text}
    if preference_path is not None or ground_truth_preference_path is not None:
        check_texts(trajectories, texts)

    renderer = PageRenderer(
        browser_workers, browser, page_width, page_height, timeout=page_timeout, javascript=javascript
    )
    with renderer:
        encoder = load_encoder(image_encoder, device, dtype)
        print(encoder.describe)
        settings = {
            "num_tasks": num_tasks,
            "grade_references": grade_references,
            "image_encoder": encoder.name,
            "dtype": dtype,
            "browser": renderer.browser,
            "page_width": page_width,
            "page_height": page_height,
            "javascript": javascript,
        }
        other = None if baseline is None else read_graded(baseline)
        if other is not None:
            told = {"kind": "page", "encoder": encoder.name}
            own = GradedFile(output_path, trajectories, grader_of(output_path, [], settings) | told)
            check_comparable({"this run": [own], "the baseline": [other]})
        with open_run(output_path, settings, [source], overwrite) as output:
            if output.complete:
                print(f"{output_path}: already complete")
            else:
                left = [trajectory for trajectory in trajectories if trajectory.id not in output.done]
                grader = PageGrader(renderer, encoder, EmbeddingCache(embedding_cache))
                bar = tqdm(total=len(trajectories), initial=len(trajectories) - len(left), unit=" pages")
                for graded in grade_page_trajectories(left, grader):
                    output.write(graded.to_dict())
                    bar.update()
                bar.close()
            graded = [Trajectory.from_dict(row, output_path) for row in output.records()]
            summary = summarise(graded, k, seed)
            if not output.complete:
                output.finish(summary)
    if other is not None:
        runs = {"this run": [read_graded(output_path)], "the baseline": [other]}
        compared = compare(runs, ["the baseline"], seed=seed)
        won = compared.against["this run", "the baseline"].wins
        summary["win_rate"] = won.to_dict() | {"baseline": baseline}
    print(summary_text(summary))
    for path, hint in ((preference_path, False), (ground_truth_preference_path, True)):
        if path is not None:
            write_pairs(path, output_path, graded, hint, texts, overwrite, min_gap)
    if best_path is not None:
        _write_best(best_path, output_path, graded, overwrite)


def _write_best(path: str, graded_path: str, graded: list[Trajectory], overwrite: bool) -> None:
    with open_run(path, {"best_of": "task"}, [graded_path], overwrite) as output:
        if not output.complete:
            for trajectory in best_of_tasks(graded):
                if trajectory.id not in output.done:
                    output.write(trajectory.to_dict())
            output.finish({"trajectories": len(output.done)})
        print(f"{path}: the best dialogues of {len(output.done)} tasks")


def _chat(model: str | None):
    if model is None:
        return None
    from sweet_rl.chat import ChatFormat

    return ChatFormat.from_pretrained(model)


if __name__ == "__main__":
    run(main)
