"""Step 0: new backend tasks from a text corpus, proposed by a language model and checked in the sandbox.

    python scripts/synthesize_tasks.py --model_id meta-llama/Llama-3.1-70B-Instruct --hostname localhost:8000 \
        --corpus_path articles/ --output_path tasks.jsonl --num_tasks 10000 --exclude test.jsonl

Every proposal and what became of it is kept in OUTPUT.candidates.jsonl; the same command continues a run that was
stopped. Dropped is what does not read as a task, whose reference fails or gives other results on another run, whose
tests a trivial function passes, and what is like a task before it.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from tqdm import tqdm

from sweet_rl.cli import print_summary, run
from sweet_rl.errors import UserError
from sweet_rl.models import ChatModel, ModelError, Sampling, load_model
from sweet_rl.models.cache import CallCache
from sweet_rl.prompts import fill, load_prompt
from sweet_rl.records import Task, hash_rows, read_records, seed_for
from sweet_rl.rewards.code import CodeGrader
from sweet_rl.rollout.play import as_they_finish
from sweet_rl.runs.run import Run, check_output, open_run, write_texts
from sweet_rl.tasks import synthesis


def main(
    model_id: str,
    corpus_path: str,
    output_path: str,
    num_tasks: int = 100,
    max_candidates: int | None = None,
    exclude: list[str] | None = None,
    num_tests: int = 10,
    text_field: str = "text",
    prompt_path: str = "synthesize_task.txt",
    temperature: float = 1.0,
    max_tokens: int = 2048,
    hostname: str | None = None,
    engine: Literal["auto", "transformers", "vllm", "openai"] = "auto",
    request: dict | None = None,
    api_key_variable: str = "OPENAI_API_KEY",
    timeout: float = 600.0,
    patience: float = 600.0,
    concurrency: int = 64,
    workers: int | None = None,
    sandbox: Literal["auto", "strict", "seccomp", "limits"] = "auto",
    cache: str | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Synthesises tasks.

    Args:
        model_id: proposes tasks: a checkpoint folder, a hub name, or a server's name for it.
        corpus_path: a text file, a JSONL file, or a folder of .txt, .md and .jsonl files.
        output_path: tasks, JSONL.
        num_tasks: so many are wanted.
        max_candidates: proposals that are asked for at most; ten times num_tasks by default.
        exclude: files of tasks that none of the new ones may be like (the test tasks), separated by commas.
        num_tests: test calls per task.
        text_field: where a JSONL corpus has its text.
        prompt_path: template with {passage} and {num_tests}.
        hostname: server of the model (host, host:port or URL; several separated by commas; @FILE with one a line).
        request: fields of the request body for a model on a server, above all others; null leaves one out.
        concurrency: proposals under way at once.
        workers: references checked at once; the number of cores by default.
    """
    max_candidates = 10 * num_tasks if max_candidates is None else max_candidates
    at_least_one = {
        "num_tasks": num_tasks, "max_candidates": max_candidates, "num_tests": num_tests, "concurrency": concurrency
    }  # fmt: skip
    for name, value in at_least_one.items():
        if value < 1:
            raise UserError(f"--{name} is {value}; it must be at least 1.")
    sampling = Sampling(temperature, max_tokens=max_tokens)
    template = load_prompt(prompt_path, ["passage"], ["num_tests"])
    passages = synthesis.Passages.read(corpus_path, text_field)
    known = [task for path in exclude or [] for task in read_records(path, Task)]
    settings = {
        "model_id": model_id, "corpus": hash_rows(passages.texts)[:16], "num_tests": num_tests,
        "prompt": hash_rows([template])[:16], "temperature": temperature, "max_tokens": max_tokens, "seed": seed,
        "num_tasks": num_tasks, "request": request,
        "exclude": hash_rows(task.to_dict() for task in known)[:16],
    }  # fmt: skip
    check_output(output_path, overwrite=True)
    with open_run(f"{output_path}.candidates.jsonl", settings, exclude or [], overwrite) as candidates:
        if not candidates.complete:
            model = load_model(
                model_id, engine, hostname, None, os.environ.get(api_key_variable), timeout=timeout, patience=patience,
                request=request, cache=CallCache(cache) if cache else None,
            )  # fmt: skip
            with CodeGrader(workers=workers, sandbox=sandbox) as grader:
                work = _Work(model, grader, passages, template, sampling, num_tests, seed)
                failures = asyncio.run(_collect(candidates, work, known, num_tasks, max_candidates, concurrency))
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


class _Work:
    """One proposal: a passage, the model's reply, and the checks in the sandbox."""

    def __init__(
        self,
        model: ChatModel,
        grader: CodeGrader,
        passages: synthesis.Passages,
        template: str,
        sampling: Sampling,
        num_tests: int,
        seed: int,
    ) -> None:
        self.model, self.grader, self.passages, self.template = model, grader, passages, template
        self.sampling, self.num_tests, self.seed = sampling, num_tests, seed
        self.checks = ThreadPoolExecutor(grader.workers)

    async def __call__(self, number: int) -> dict | ModelError:
        passage = self.passages.draw(number, self.seed)
        prompt = fill(self.template, passage=passage, num_tests=self.num_tests)
        sampling = Sampling(
            self.sampling.temperature, max_tokens=self.sampling.max_tokens, seed=seed_for(self.seed, number)
        )
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


def _record(number: int, **what: object) -> dict:
    return {"id": str(number), "number": number, **what}


async def _collect(
    candidates: Run, work: _Work, known: list[Task], num_tasks: int, max_candidates: int, concurrency: int
) -> list[str]:
    """Asks until enough tasks are found or the proposals are used up; returns the kinds of errors. Proposals are begun
    in the order of their numbers and all ended, so that those that were asked for are always the first ones."""
    seen, found, failures, goal = synthesis.Duplicates(), 0, [], num_tasks
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
        await work.model.check()
        with tqdm(total=num_tasks, initial=min(found, num_tasks), desc="tasks", unit="task") as bar:
            while True:
                async for result in as_they_finish(missing(), work, concurrency):
                    if isinstance(result, ModelError):
                        failures.append(result.kind)
                        continue
                    candidates.write(result)
                    last = max(last, result["number"])
                    new = count(result)
                    found += new
                    bar.update(new if found <= num_tasks else 0)
                # Which of two like tasks goes depends on their order, and here they come as they end: count again.
                kept = len(synthesis.select(candidates.records(), known)[0])
                if failures or kept >= num_tasks or len(candidates.done) >= max_candidates:
                    break
                goal = found + num_tasks - kept
    finally:
        await work.model.close()
        work.checks.shutdown()
    return failures


if __name__ == "__main__":
    run(main)
