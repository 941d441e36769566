"""Synthesise tasks from a corpus: ask a model for proposals, check each in the sandbox, keep enough of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from lab.task_synthesis import synthesis
from lab.task_synthesis.duplicates import Duplicates
from sweet_rl.dialogues.backend.hidden_tests import CodeGrader
from sweet_rl.models.base import ChatModel, ModelError, Sampling
from sweet_rl.models.load import load_model
from sweet_rl.models.prompts import fill, load_prompt
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.runs.cli import UNRECORDED, to_settings
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.paths import check_paths
from sweet_rl.runs.records import Task, hash_rows, read_records, read_rows, seed_for
from sweet_rl.runs.run import Run, check_output, open_run
from sweet_rl.runs.step import StepSettings, run_step, write_results
from sweet_rl.runs.texts import write_texts

PROMPT = Path(__file__).with_name("synthesize_task.txt")


@dataclass(frozen=True)
class SynthesisSettings:
    """What tasks are made from, and how many.

    Attributes:
        model_id: Model that proposes the tasks: a checkpoint folder, a hub name, or a server's name for it.
        corpus_path: Text file, JSONL file, or folder of .txt, .md and .jsonl files.
        num_tasks: Number of tasks that are wanted.
        max_candidates: Largest number of proposals; ten times num_tasks by default.
        exclude: Files of tasks that no new task may be like (the test tasks), separated by commas.
        num_tests: Number of test calls per task.
        text_field: Field of a JSONL corpus that holds its text.
        prompt_path: Template with {passage} and {num_tests}.
        concurrency: Largest number of proposals in progress.
        workers: Number of references checked at the same time; the number of cores by default.
        sandbox: Kind of sandbox (see the docstring of sweet_rl/isolation/sandbox).
        seed: Random seed of the passages and of sampling.
    """

    model_id: str
    corpus_path: Annotated[str, UNRECORDED]  # the hash of its texts is recorded
    num_tasks: int = 100
    max_candidates: Annotated[int | None, UNRECORDED] = None
    exclude: Annotated[tuple[str, ...], UNRECORDED] = ()  # the hash of these tasks is recorded
    num_tests: int = 10
    text_field: Annotated[str, UNRECORDED] = "text"
    prompt_path: Annotated[str, UNRECORDED] = str(PROMPT)  # the hash of the template is recorded
    concurrency: Annotated[int, UNRECORDED] = 64
    workers: Annotated[int | None, UNRECORDED] = None
    sandbox: Annotated[Literal["auto", "strict", "seccomp", "limits"], UNRECORDED] = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("num_tasks", "max_candidates", "num_tests", "concurrency"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"--{name} is {value}; it must be at least 1.")

    @property
    def most_candidates(self) -> int:
        """The largest number of proposals."""
        return 10 * self.num_tasks if self.max_candidates is None else self.max_candidates


def synthesize(
    settings: SynthesisSettings,
    sampling: Sampling,
    model: ModelSettings,
    calls: CallSettings,
    output_path: str,
    step: StepSettings,
) -> None:
    """Write tasks, and every proposal with the reason for which it was dropped in OUTPUT.candidates.jsonl.

    A killed run continues with the same call.

    Args:
        settings: What the tasks are made from.
        sampling: How proposals are sampled.
        model: Where the model runs.
        calls: How it is called.
        output_path: The tasks.
        step: Whether older outputs are replaced.

    Raises:
        UserError: Before anything is written; or, once the others are written, because some proposals failed or the
            proposals gave too few tasks.
    """
    template = load_prompt(settings.prompt_path, ["passage"], ["num_tests"])
    passages = synthesis.Passages.read(settings.corpus_path, settings.text_field)
    known = [task for path in settings.exclude for task in read_records(path, Task)]
    proposals = f"{output_path}.candidates.jsonl"
    check_paths([output_path, proposals], [settings.corpus_path, *settings.exclude])
    check_output(output_path, step.overwrite or Path(proposals).exists())  # without proposals it is another's file

    def select(rows: Iterable[dict], replaces: bool) -> dict:
        tasks, reasons = synthesis.select(rows, known, settings.num_tasks)
        text = "".join(json.dumps(task.to_dict(), ensure_ascii=False) + "\n" for task in tasks)
        write_texts({output_path: text}, replaces)
        return {"tasks": len(tasks), "dropped": dict(reasons.most_common())}

    async def collect(run: Run) -> dict:
        chat_model = load_model(settings.model_id, replace(model, tokenizer=None), calls)
        grader = CodeGrader(workers=settings.workers, sandbox=settings.sandbox)
        try:
            with grader, ThreadPoolExecutor(grader.workers) as checks:
                propose = _Proposals(
                    chat_model,
                    grader,
                    checks,
                    passages,
                    template,
                    replace(sampling, seed=settings.seed),
                    settings.num_tests,
                )
                await chat_model.check()
                await _collect(run, propose, known, settings)
        finally:
            await chat_model.close()
        summary = {"candidates": len(run.done), **select(run.records(), replaces=True)}
        if summary["tasks"] < settings.num_tasks:
            raise UserError(
                f"{settings.num_tasks} tasks were wanted, and {summary['candidates']} proposals gave "
                f"{summary['tasks']}, which are in {output_path} (dropped: {json.dumps(summary['dropped'])}). The same "
                "command with more --max_candidates goes on."
            )
        return summary

    recorded = to_settings(
        settings,
        model,
        temperature=sampling.temperature,
        max_tokens=sampling.max_tokens,
        corpus=hash_rows(passages.texts)[:16],
        prompt=hash_rows([template])[:16],
        exclude=hash_rows(task.to_dict() for task in known)[:16],
    )
    run_step(open_run(proposals, recorded, settings.exclude, step.overwrite), collect)
    select((row for _, row in read_rows(proposals)), step.overwrite)  # made again if the file was removed


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

    async def __call__(self, number: int) -> dict:
        """The record of proposal `number`. Raises ModelError if the model may answer later, or answers nothing."""
        passage = self.passages.draw(number, self.sampling.seed)
        prompt = fill(self.template, passage=passage, num_tests=self.num_tests)
        sampling = replace(self.sampling, seed=seed_for(self.sampling.seed, number))
        try:
            (reply,) = await self.model.complete([{"role": "user", "content": prompt}], sampling)
        except ModelError as error:
            if error.fatal or error.retryable:
                raise
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


async def _collect(run: Run, propose: _Proposals, known: Sequence[Task], settings: SynthesisSettings) -> None:
    """Ask until enough tasks are found or the proposals are used up.

    Proposals are started in the order of their numbers and all finished, so that those on disk are always the first.
    """
    seen, found, goal = Duplicates(), 0, settings.num_tasks
    last = max(map(int, run.done), default=-1)

    def count(row: dict) -> None:
        nonlocal found, last
        found += int(row.get("task") is not None and seen.add(Task.from_dict(row["task"])))
        last = max(last, row["number"])

    def missing() -> Iterator[int]:
        for number in range(settings.most_candidates):
            if found >= goal and number > last:
                return
            if str(number) not in run.done:
                yield number

    async def ask(number: int) -> list[dict]:
        row = await propose(number)
        count(row)
        return [row]

    for task in known:
        seen.add(task)
    for row in run.records():
        count(row)
    kept = 0
    while kept < settings.num_tasks and len(run.done) < settings.most_candidates:
        waiting = getattr(propose.model, "waiting", str)
        await write_results(run, missing(), ask, settings.concurrency, unit="proposal", waiting=waiting)
        # Of two similar tasks the earlier one is kept, but proposals finish in any order: count again.
        kept = len(synthesis.select(run.records(), known)[0])
        goal = found + settings.num_tasks - kept
