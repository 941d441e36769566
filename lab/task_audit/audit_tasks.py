"""Audit files of tasks: references that fail or differ, tests that prove nothing, duplicates.

    python lab/task_audit/audit_tasks.py --input_path test.jsonl,train.jsonl --output_path audit.jsonl \
        --exclude_path exclude.jsonl --page_path audit.md

    python scripts/simulate_interactions.py --input_path train.jsonl --exclude exclude.jsonl ...

Of two tasks that are alike, the later one is listed: name the test tasks first. The same command continues a run that
was stopped.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Annotated

from lab.task_audit.audit import audit_code, audit_page, audit_pages, count_reasons, duplicates
from sweet_rl.cli import prefix, print_summary, run, to_settings
from sweet_rl.domains.backend.environment import CodeGrading
from sweet_rl.domains.frontend.environment import PageGrading
from sweet_rl.errors import UserError
from sweet_rl.progress import progress_bar
from sweet_rl.records import Task, read_records
from sweet_rl.runs.run import open_run
from sweet_rl.runs.texts import write_texts
from sweet_rl.task_types import load_domain


def main(
    input_path: list[str],
    output_path: str,
    code: Annotated[CodeGrading, prefix("", paper_grader=None)],
    pages: PageGrading,
    exclude_path: str | None = None,
    page_path: str | None = None,
    task_type: str = "code",
    repeats: int = 2,
    num_tasks: int | None = None,
    overwrite: bool = False,
) -> None:
    """Audit tasks.

    Args:
        input_path: files of tasks, JSONL, separated by commas, in the order of precedence.
        output_path: one line per task: what was found, and evidence.
        exclude_path: write the ids of the tasks to leave out here, with the reasons, for --exclude. A task that two
            files share is left out wherever the list is given: to keep it for the test, give it to training only.
        page_path: write a page of counts, ids and reasons here (Markdown).
        task_type: code or html, or the mini domains.
        repeats: number of times that each reference is run (or drawn), each time in other processes.
        num_tasks: audit only the first so many tasks of each file.
        overwrite: replace the outputs.
    """
    if repeats < 1:
        raise UserError(f"--repeats is {repeats}; it must be at least 1.")
    domain = load_domain(task_type)
    grading = pages if domain.draws_pages else code
    files = {path: read_records(path, Task, limit=num_tasks) for path in input_path}
    for path, tasks in files.items():
        domain.check(tasks, path)
    like = duplicates(files)
    settings = {"task_type": domain.name, "repeats": repeats, "num_tasks": num_tasks} | to_settings(grading)
    with open_run(output_path, settings, input_path, overwrite) as output, contextlib.ExitStack() as resources:
        failed = 0
        if output.complete:
            print(f"{output_path}: already complete")
        else:
            graders = [resources.enter_context(domain.grader(grading)) for _ in range(repeats)]
            print(graders[0].describe())
            with progress_bar(total=sum(map(len, files.values())), initial=len(output.done), unit=" tasks") as bar:
                for number, (path, tasks) in enumerate(files.items(), start=1):
                    left = [task for task in tasks if f"{number}-{task.id}" not in output.done]
                    audits = (
                        audit_pages(left, graders, domain.min_gap) if domain.draws_pages else audit_code(left, graders)
                    )
                    for audit in audits:
                        bar.update()
                        if audit.machine:
                            failed += 1
                            continue
                        row = audit.to_dict()
                        row["reasons"] |= like.get((path, audit.task.id), {})
                        output.write({"id": f"{number}-{audit.task.id}", "task_id": row.pop("id"), "file": path, **row})
        if failed:
            raise UserError(
                f"{failed} tasks were not audited because this machine is too busy. Run the same command again: it "
                "tries only these."
            )
        rows = [row | {"id": row["task_id"], "file": Path(row["file"]).name} for row in output.records()]
        if not output.complete:
            out = sum(bool(row["reasons"]) for row in rows)
            output.finish({"tasks": len(rows), "left_out": out, "reasons": count_reasons(rows)})
        texts = {}
        if exclude_path is not None:
            listed = [{key: row[key] for key in ("id", "file", "reasons")} for row in rows if row["reasons"]]
            texts[exclude_path] = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in listed)
        if page_path is not None:
            names = ",".join(Path(path).name for path in input_path)
            kind = "" if task_type == "code" else f" --task_type {task_type}"
            done = "drawn" if domain.draws_pages else "run"
            outputs = "--output_path audit.jsonl --page_path audit.md"
            command = f"python lab/task_audit/audit_tasks.py --input_path {names}{kind} {outputs}"
            texts[page_path] = audit_page(rows, command, f"Each reference was {done} {repeats} times")
        write_texts(texts, overwrite)
        print_summary(output.summary or {})


if __name__ == "__main__":
    run(main)
