"""Measure simulated humans by their replies: leaks of code, contradictions, "I don't know", length, early ends.

    python lab/simulated_humans/measure_humans.py --input_path scripted.jsonl,llm.jsonl --output_path replies.jsonl \
        --markdown_path humans.md

Each file is an output of simulate_interactions.py, graded or not. Contradictions with the reference are found by the
sandbox for mini tasks, and for other tasks by a judge:

    python lab/simulated_humans/measure_humans.py --input_path llm.jsonl --output_path replies.jsonl \
        --judge_model Qwen/Qwen3-32B --judge_hostname localhost:8000

The same command continues a run that was stopped.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

from lab.simulated_humans.human_quality import check_claims, quality, quality_table, replies_of
from lab.simulated_humans.reply_judge import PROMPT_VALUES, contradicts
from sweet_rl.cli import prefix, run, to_settings
from sweet_rl.domains.backend.environment import CodeGrading
from sweet_rl.errors import UserError
from sweet_rl.models import ChatModel, ModelError, load_model
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.progress import progress_bar
from sweet_rl.prompts import load_prompt
from sweet_rl.records import Trajectory, hash_rows, read_records
from sweet_rl.runs.run import Run, open_run
from sweet_rl.runs.step import as_they_finish
from sweet_rl.runs.texts import write_texts
from sweet_rl.task_types import load_domain

CHUNK = 256  # replies whose claims are graded together


def main(
    input_path: list[str],
    output_path: str,
    grading: Annotated[CodeGrading, prefix("", paper_grader=None)],
    judge: Annotated[ModelSettings, prefix("judge_", tokenizer=None)],
    calls: Annotated[CallSettings, prefix("judge_")],
    judge_model: str | None = None,
    judge_prompt_path: str = "reply_judge.txt",
    task_type: str = "code",
    markdown_path: str | None = None,
    concurrency: int = 64,
    overwrite: bool = False,
) -> None:
    """Measure humans.

    Args:
        input_path: trajectories, JSONL, several files separated by commas.
        output_path: one line per reply, with what was found about it.
        judge_model: model that judges replies that the sandbox cannot check; without it they are not checked.
        judge_prompt_path: template with {ground_truth}, {question} and {reply}.
        task_type: the domain of the dialogues.
        markdown_path: write the table here as Markdown.
        concurrency: judgements in progress at the same time.
        overwrite: replace the outputs.
    """
    domain = load_domain(task_type)
    template = load_prompt(judge_prompt_path, PROMPT_VALUES)
    trajectories = {t.id: t for number, path in enumerate(input_path, start=1) for t in _read(path, number)}
    replies = [row | {"dialogue": t.id} for t in trajectories.values() for row in replies_of(t, domain)]
    if not replies:
        raise UserError(f"{', '.join(input_path)}: no human replied in these dialogues.")
    settings = {"task_type": domain.name, "judge_model": judge_model}
    if judge_model is not None:
        settings |= {"judge_prompt": hash_rows([template])[:16], **to_settings(judge)}
    with open_run(output_path, settings, [*input_path, domain.source], overwrite) as output:
        if output.complete:
            print(f"{output_path}: already complete")
        else:
            model = None
            if judge_model is not None:
                model = load_model(judge_model, judge, calls)
            left = [row for row in replies if row["id"] not in output.done]
            claims = [row for row in left if row["claim"] is not None]
            others = [row for row in left if row["claim"] is None]
            if claims:
                with domain.grader(grading) as grader:
                    for start in progress_bar(range(0, len(claims), CHUNK), desc="claims", unit=f" {CHUNK} claims"):
                        chunk = claims[start : start + CHUNK]
                        jobs = [(trajectories[row["dialogue"]].task, row["claim"]) for row in chunk]
                        for row, wrong in zip(chunk, check_claims(jobs, grader), strict=True):
                            output.write(row | {"contradicts": wrong, "checked_by": "sandbox"})
            if model is not None:
                asyncio.run(_judge(output, others, trajectories, model, template, concurrency))
            else:
                for row in others:
                    output.write(row | {"contradicts": None})
        measured = quality(list(output.records()), list(trajectories.values()))
        if not output.complete:
            output.finish({"humans": measured})
    table = quality_table(measured)
    if markdown_path is not None:
        write_texts({markdown_path: table.markdown() + "\n"}, overwrite)
    print(table.text())


def _read(path: str, number: int) -> list[Trajectory]:
    """The trajectories in which a human replied, with ids that no other file has."""
    trajectories = [t for t in read_records(path, Trajectory) if t.human_label is not None]
    for trajectory in trajectories:
        trajectory.id = f"{number}-{trajectory.id}"
    return trajectories


async def _judge(
    output: Run,
    rows: list[dict],
    trajectories: dict[str, Trajectory],
    model: ChatModel,
    template: str,
    concurrency: int,
) -> None:
    """Judge the replies that the output lacks. Raises UserError if some could not be judged; the others are kept."""

    async def judged(row: dict) -> dict | ModelError:
        try:
            task = trajectories[row["dialogue"]].task
            wrong = await contradicts(model, template, task, row["question"], row["reply"])
        except ModelError as error:
            return error
        return row | {"contradicts": wrong, "checked_by": "judge"}

    failures = []
    try:
        await model.check()
        with progress_bar(total=len(rows), desc="judgements", unit="reply") as bar:
            async for result in as_they_finish(rows, judged, concurrency):
                bar.update()
                if isinstance(result, ModelError):
                    failures.append(result.kind)
                else:
                    output.write(result)
    finally:
        await model.close()
    if failures:
        raise UserError(
            f"{len(failures)} replies could not be judged ({', '.join(sorted(set(failures)))}); the others are kept. "
            "Run the same command again to judge them."
        )


if __name__ == "__main__":
    run(main)
