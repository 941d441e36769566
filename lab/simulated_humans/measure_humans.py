"""Measure simulated humans by their replies: leaks of code, contradictions, "I don't know", length, early ends.

    python -m lab.simulated_humans.measure_humans --input_path scripted.jsonl,llm.jsonl --output_path replies.jsonl \
        --markdown_path humans.md

Each file is an output of simulate_interactions.py, graded or not. Contradictions with the reference are found by the
sandbox for mini tasks, and for other tasks by a judge:

    python -m lab.simulated_humans.measure_humans --input_path llm.jsonl --output_path replies.jsonl \
        --judge_model Qwen/Qwen3-32B --judge_hostname localhost:8000

The same command continues a run that was stopped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from lab.simulated_humans.human_quality import check_claims, quality, quality_table, replies_of
from lab.simulated_humans.reply_judge import PROMPT_VALUES, contradicts
from sweet_rl.dialogues.backend.environment import CodeGrading
from sweet_rl.dialogues.task_types import load_domain
from sweet_rl.models.load import load_model
from sweet_rl.models.prompts import load_prompt
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.runs.cli import prefix, run, to_settings
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.paths import check_paths
from sweet_rl.runs.progress import progress_bar
from sweet_rl.runs.records import Trajectory, hash_rows, read_records
from sweet_rl.runs.run import Run, open_run
from sweet_rl.runs.step import run_step, write_results
from sweet_rl.runs.texts import write_texts

CHUNK = 256  # replies whose claims are graded together
JUDGE_PROMPT = Path(__file__).with_name("reply_judge.txt")


def main(
    input_path: list[str],
    output_path: str,
    grading: Annotated[CodeGrading, prefix("", concurrency=None, paper_grader=None)],
    judge: Annotated[ModelSettings, prefix("judge_", tokenizer=None)],
    calls: Annotated[CallSettings, prefix("judge_")],
    judge_model: str | None = None,
    judge_prompt_path: str = str(JUDGE_PROMPT),
    task_type: str = "code",
    markdown_path: str | None = None,
    concurrency: int = 64,
    overwrite: bool = False,
) -> None:
    """Measure humans.

    Args:
        input_path: Trajectories, JSONL, several files separated by commas.
        output_path: One line per reply, with what was found about it.
        judge_model: Model that judges replies that the sandbox cannot check; without it they are not checked.
        judge_prompt_path: Template with {ground_truth}, {question} and {reply}.
        task_type: Domain of the dialogues.
        markdown_path: File for the table in Markdown.
        concurrency: Number of judgements in progress at the same time.
        overwrite: Replace the outputs.
    """
    check_paths([output_path, markdown_path], input_path)
    domain = load_domain(task_type)
    template = load_prompt(judge_prompt_path, PROMPT_VALUES)
    trajectories = {t.id: t for number, path in enumerate(input_path, start=1) for t in _read(path, number)}
    replies = [row | {"dialogue": t.id} for t in trajectories.values() for row in replies_of(t, domain.draws_pages)]
    if not replies:
        raise UserError(f"{', '.join(input_path)}: no human replied in these dialogues.")
    settings: dict = {"task_type": domain.name, "judge_model": judge_model}
    if judge_model is not None:
        settings |= {"judge_prompt": hash_rows([template])[:16], **to_settings(judge)}

    def check(output: Run, rows: list[dict]) -> None:
        """Check the rows with a claim in the sandbox."""
        with domain.make_grader(grading) as grader:
            for start in progress_bar(range(0, len(rows), CHUNK), desc="claims", unit=f" {CHUNK} claims"):
                chunk = rows[start : start + CHUNK]
                jobs = [(trajectories[row["dialogue"]].task, row["claim"]) for row in chunk]
                for row, wrong in zip(chunk, check_claims(jobs, grader), strict=True):
                    output.write(row | {"contradicts": wrong, "checked_by": "sandbox"})

    async def measure(output: Run) -> dict:
        left = [row for row in replies if row["id"] not in output.done]
        if claims := [row for row in left if row["claim"] is not None]:
            check(output, claims)
        others = [row for row in left if row["claim"] is None]
        if judge_model is None:
            output.write_missing(row | {"contradicts": None} for row in others)
        else:
            model = load_model(judge_model, judge, calls)

            async def judged(row: dict) -> list[dict]:
                task = trajectories[row["dialogue"]].task
                wrong = await contradicts(model, template, task, row["question"], row["reply"])
                return [row | {"contradicts": wrong, "checked_by": "judge"}]

            try:
                await model.check()
                await write_results(output, others, judged, concurrency, total=len(replies), unit="judgement")
            finally:
                await model.close()
        return {"humans": quality(list(output.records()), list(trajectories.values()))}

    output = open_run(output_path, settings, [*input_path, domain.source], overwrite)
    summary = run_step(output, measure, show=lambda summary: print(quality_table(summary["humans"]).text()))
    if markdown_path is not None:
        write_texts({markdown_path: quality_table(summary["humans"]).markdown() + "\n"}, overwrite)


def _read(path: str, number: int) -> list[Trajectory]:
    """The trajectories in which a human replied, with ids that no other file has."""
    trajectories = [t for t in read_records(path, Trajectory) if t.human_label is not None]
    for trajectory in trajectories:
        trajectory.id = f"{number}-{trajectory.id}"
    return trajectories


if __name__ == "__main__":
    run(main)
