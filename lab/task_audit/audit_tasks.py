"""Audit files of tasks: references that fail or differ, tests that prove nothing, duplicates.

    python -m lab.task_audit.audit_tasks --input_path test.jsonl,train.jsonl --output_path audit.jsonl \
        --exclude_path exclude.jsonl --page_path audit.md

    python scripts/simulate_interactions.py --input_path train.jsonl --exclude exclude.jsonl ...

Of two tasks that are alike, the later one is listed: name the test tasks first. The same command continues a run that
was stopped.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Annotated, cast

from lab.task_audit.audit import audit_code, audit_page, audit_pages, count_reasons, duplicates
from sweet_rl.dialogues.backend.environment import CodeGrading
from sweet_rl.dialogues.frontend.cosine_similarity import PageGrader
from sweet_rl.dialogues.frontend.environment import PageGrading
from sweet_rl.dialogues.task_types import load_domain
from sweet_rl.runs.cli import prefix, run, to_settings
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.paths import check_paths
from sweet_rl.runs.progress import progress_bar
from sweet_rl.runs.records import Task, read_records
from sweet_rl.runs.run import Run, open_run
from sweet_rl.runs.step import run_step
from sweet_rl.runs.texts import write_texts


def main(
    input_path: list[str],
    output_path: str,
    code: Annotated[CodeGrading, prefix("", paper_grader=None)],
    pages: Annotated[PageGrading, prefix("", concurrency=None, paper_grader=None)],
    exclude_path: str | None = None,
    page_path: str | None = None,
    task_type: str = "code",
    repeats: int = 2,
    num_tasks: int | None = None,
    overwrite: bool = False,
) -> None:
    """Audit tasks.

    Args:
        input_path: Files of tasks, JSONL, separated by commas, in the order of precedence.
        output_path: One line per task: what was found, and evidence.
        exclude_path: File for the ids of the tasks to leave out, with the reasons, for --exclude. A task that two
            files share is left out wherever the list is given: to keep it for the test, give it to training only.
        page_path: File for a page of counts, ids and reasons (Markdown).
        task_type: Domain of the tasks: code or html, or a mini domain.
        repeats: Number of times that each reference is run (or drawn), each time in other processes.
        num_tasks: Number of tasks of each file that are audited; all by default.
        overwrite: Replace the outputs.
    """
    if repeats < 1:
        raise UserError(f"--repeats is {repeats}; it must be at least 1.")
    check_paths([output_path, exclude_path, page_path], input_path)
    domain = load_domain(task_type)
    grading = pages if domain.draws_pages else code
    files = {path: read_records(path, Task, limit=num_tasks) for path in input_path}
    for path, tasks in files.items():
        domain.check(tasks, path)
    like = duplicates(files)

    def audit(output: Run) -> dict:
        with contextlib.ExitStack() as resources:
            graders = [resources.enter_context(domain.make_grader(grading)) for _ in range(repeats)]
            print(graders[0].describe())
            bar = resources.enter_context(
                progress_bar(total=sum(map(len, files.values())), initial=len(output.done), unit=" tasks")
            )
            failed = 0
            for number, (path, tasks) in enumerate(files.items(), start=1):
                left = [task for task in tasks if f"{number}-{task.id}" not in output.done]
                if domain.draws_pages:
                    audits = audit_pages(left, cast(list[PageGrader], graders), domain.min_gap or 0.0)
                else:
                    audits = audit_code(left, graders)
                for found in audits:
                    bar.update()
                    if found.machine:
                        failed += 1
                        continue
                    row = found.to_dict()
                    row["reasons"] |= like.get((path, found.task.id), {})
                    output.write({"id": f"{number}-{found.task.id}", "task_id": row.pop("id"), "file": path, **row})
        if failed:
            raise UserError(
                f"{failed} tasks were not audited because this machine is too busy. Run the same command again: it "
                "tries only these."
            )
        rows = list(output.records())
        out = sum(bool(row["reasons"]) for row in rows)
        return {"tasks": len(rows), "left_out": out, "reasons": count_reasons(rows)}

    settings = {"task_type": domain.name, "repeats": repeats, "num_tasks": num_tasks} | to_settings(grading)
    output = open_run(output_path, settings, input_path, overwrite)
    run_step(output, audit)
    rows = [row | {"id": row["task_id"], "file": Path(row["file"]).name} for row in output.records()]
    texts: dict[str | Path, str] = {}
    if exclude_path is not None:
        listed = [{key: row[key] for key in ("id", "file", "reasons")} for row in rows if row["reasons"]]
        texts[exclude_path] = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in listed)
    if page_path is not None:
        names = ",".join(Path(path).name for path in input_path)
        kind = "" if task_type == "code" else f" --task_type {task_type}"
        done = "drawn" if domain.draws_pages else "run"
        outputs = "--output_path audit.jsonl --page_path audit.md"
        command = f"python -m lab.task_audit.audit_tasks --input_path {names}{kind} {outputs}"
        texts[page_path] = audit_page(rows, command, f"Each reference was {done} {repeats} times")
    write_texts(texts, overwrite)


if __name__ == "__main__":
    run(main)
