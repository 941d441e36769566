"""New backend tasks from a text corpus, proposed by a language model and checked in the sandbox.

    python scripts/synthesize_tasks.py --model_id meta-llama/Llama-3.1-70B-Instruct --hostname localhost:8000 \
        --corpus_path articles/ --output_path tasks.jsonl --num_tasks 10000 --exclude test.jsonl

Every proposal and the reason for which it was dropped are kept in OUTPUT.candidates.jsonl. The same command continues
a run that was stopped. A proposal is dropped if it cannot be read as a task, if its reference fails or gives different
results on another run, if a trivial function passes its tests, or if it is like an earlier task.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from sweet_rl.cli import prefix, print_summary, run, to_settings
from sweet_rl.domains.backend import synthesis
from sweet_rl.domains.backend.duplicates import Duplicates
from sweet_rl.domains.backend.hidden_tests import CodeGrader
from sweet_rl.errors import UserError
from sweet_rl.models import ChatModel, ModelError, Sampling, load_model
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.progress import progress_bar
from sweet_rl.prompts import fill, load_prompt
from sweet_rl.records import Task, hash_rows, read_records, seed_for
from sweet_rl.runs.push import pushed
from sweet_rl.runs.run import Run, check_output, open_run
from sweet_rl.runs.step import as_they_finish
from sweet_rl.runs.texts import write_texts

SAMPLING = Sampling(max_tokens=2048)


def main(
    model_id: str,
    corpus_path: str,
    output_path: str,
    model: Annotated[ModelSettings, prefix("", tokenizer=None)],
    calls: CallSettings,
    sampling: Annotated[Sampling, prefix("", top_p=None, n=None, seed=None)] = SAMPLING,
    num_tasks: int = 100,
    max_candidates: int | None = None,
    exclude: list[str] | None = None,
    num_tests: int = 10,
    text_field: str = "text",
    prompt_path: str = "synthesize_task.txt",
    concurrency: int = 64,
    workers: int | None = None,
    sandbox: Literal["auto", "strict", "seccomp", "limits"] = "auto",
    seed: int = 0,
    overwrite: bool = False,
    push_to_hub: str | None = None,
) -> None:
    """Synthesise tasks.

    Args:
        model_id: proposes the tasks: a checkpoint folder, a hub name, or a server's name for it.
        corpus_path: a text file, a JSONL file, or a folder of .txt, .md and .jsonl files.
        output_path: tasks, JSONL.
        num_tasks: number of tasks that are wanted.
        max_candidates: largest number of proposals; ten times num_tasks by default.
        exclude: files of tasks that no new task may be like (the test tasks), separated by commas.
        num_tests: test calls per task.
        text_field: the field of a JSONL corpus that holds its text.
        prompt_path: template with {passage} and {num_tests}.
        concurrency: proposals in progress at the same time.
        workers: references checked at the same time; the number of cores by default.
        sandbox: auto, strict, seccomp or limits (see the docstring of sweet_rl/sandbox).
        seed: of the passages and of sampling.
        overwrite: replace the outputs.
        push_to_hub: repository on the hub, OWNER/NAME, to which the finished output is uploaded with a card.
    """
    max_candidates = 10 * num_tasks if max_candidates is None else max_candidates
    at_least_one = {
        "num_tasks": num_tasks, "max_candidates": max_candidates, "num_tests": num_tests, "concurrency": concurrency
    }  # fmt: skip
    for name, value in at_least_one.items():
        if value < 1:
            raise UserError(f"--{name} is {value}; it must be at least 1.")
    template = load_prompt(prompt_path, ["passage"], ["num_tests"])
    passages = synthesis.Passages.read(corpus_path, text_field)
    known = [task for path in exclude or [] for task in read_records(path, Task)]
    settings = to_settings(
        model_id=model_id, corpus=hash_rows(passages.texts)[:16], num_tests=num_tests, num_tasks=num_tasks, seed=seed,
        prompt=hash_rows([template])[:16], temperature=sampling.temperature, max_tokens=sampling.max_tokens,
        exclude=hash_rows(task.to_dict() for task in known)[:16], request=model.request,
    )  # fmt: skip
    proposals = f"{output_path}.candidates.jsonl"
    check_output(output_path, overwrite or Path(proposals).exists())  # without proposals it is somebody else's file
    opened = open_run(proposals, settings, exclude or [], overwrite)
    with pushed(opened, push_to_hub, output_path) as candidates:
        if not candidates.complete:
            chat_model = load_model(model_id, replace(model, tokenizer=None), calls)
            with CodeGrader(workers=workers, sandbox=sandbox) as grader, ThreadPoolExecutor(grader.workers) as checks:
                propose = _Proposals(
                    chat_model, grader, checks, passages, template, replace(sampling, seed=seed), num_tests
                )
                failures = asyncio.run(_collect(candidates, propose, known, num_tasks, max_candidates, concurrency))
            if failures:
                raise UserError(
                    f"{len(failures)} proposals could not be had ({', '.join(sorted(set(failures)))}); the others are "
                    "kept. Run the same command again to ask for them."
                )
        tasks, reasons = synthesis.select(candidates.records(), known, num_tasks)
        rows = "".join(json.dumps(task.to_dict(), ensure_ascii=False) + "\n" for task in tasks)
        write_texts({output_path: rows}, overwrite or not candidates.complete)
        summary = {"tasks": len(tasks), "candidates": len(candidates.done), "dropped": dict(reasons.most_common())}
        print_summary(summary)
        if len(tasks) < num_tasks:
            print(f"{num_tasks} tasks were wanted: the same command with more --max_candidates goes on.")
        elif not candidates.complete:
            candidates.finish(summary)


@dataclass(frozen=True)
class _Proposals:
    """Makes one proposal: a passage, the model's reply, and the checks in the sandbox."""

    model: ChatModel
    grader: CodeGrader
    checks: ThreadPoolExecutor
    passages: synthesis.Passages
    template: str
    sampling: Sampling
    num_tests: int

    async def __call__(self, number: int) -> dict | ModelError:
        """The record of proposal `number`, or the error if it is worth asking again."""
        passage = self.passages.draw(number, self.sampling.seed)
        prompt = fill(self.template, passage=passage, num_tests=self.num_tests)
        sampling = replace(self.sampling, seed=seed_for(self.sampling.seed, number))
        try:
            (reply,) = await self.model.complete([{"role": "user", "content": prompt}], sampling)
        except ModelError as error:
            if error.kind == "auth":
                raise UserError(f"the server refuses the key or the model: {error}") from error
            if error.retryable:
                return error
            return _record(number, dropped=f"the model refused ({error.kind})")
        if reply.finish_reason == "length":
            return _record(number, dropped="the reply was cut by the token limit")
        try:
            task = synthesis.propose(reply.text, self.num_tests)
            await asyncio.get_running_loop().run_in_executor(self.checks, synthesis.check, task, self.grader)
        except synthesis.Dropped as reason:
            return _record(number, dropped=str(reason), reply=reply.text)
        return _record(number, task=task.to_dict())


def _record(number: int, **fields: object) -> dict:
    return {"id": str(number), "number": number, **fields}


async def _collect(
    candidates: Run, propose: _Proposals, known: list[Task], num_tasks: int, max_candidates: int, concurrency: int
) -> list[str]:
    """Ask until enough tasks are found or the proposals are used up.

    Proposals are started in the order of their numbers and all finished, so that those on disk are always the first.

    Returns:
        The kinds of the errors of proposals that are worth asking for again.
    """
    seen, found, failures, goal = Duplicates(), 0, [], num_tasks
    last = max(map(int, candidates.done), default=-1)

    def count(row: dict) -> int:
        return int(row.get("task") is not None and seen.add(Task.from_dict(row["task"])))

    def missing() -> Iterator[int]:
        for number in range(max_candidates):
            if found >= goal and number > last:
                return
            if str(number) not in candidates.done:
                yield number

    for task in known:
        seen.add(task)
    for row in candidates.records():
        found += count(row)
    try:
        await propose.model.check()
        with progress_bar(total=num_tasks, initial=min(found, num_tasks), desc="tasks", unit="task") as bar:
            while True:
                async for result in as_they_finish(missing(), propose, concurrency):
                    if isinstance(result, ModelError):
                        failures.append(result.kind)
                        continue
                    candidates.write(result)
                    last = max(last, result["number"])
                    new = count(result)
                    found += new
                    bar.update(new if found <= num_tasks else 0)
                # Of two similar tasks the earlier one is kept, but proposals finish in any order: count again.
                kept = len(synthesis.select(candidates.records(), known)[0])
                if failures or kept >= num_tasks or len(candidates.done) >= max_candidates:
                    break
                goal = found + num_tasks - kept
    finally:
        await propose.model.close()
    return failures


if __name__ == "__main__":
    run(main)
