"""Keep the frontend tasks whose reference page can be drawn, and record why the others cannot.

    python scripts/filter_websites.py --input_path train.jsonl --output_path train.drawn.jsonl

Dropped tasks go to --dropped_path (default: OUTPUT.dropped.jsonl) with the reason in `render_failure`. The same command
continues a run that was stopped, and tries the pages again that failed because of the machine.
"""

from __future__ import annotations

from collections import Counter

from sweet_rl.cli import print_summary, run
from sweet_rl.cli.released import FILTER
from sweet_rl.errors import UserError
from sweet_rl.progress import progress_bar
from sweet_rl.records import Task, read_records
from sweet_rl.rendering.renderer import BrowserSettings
from sweet_rl.runs.run import check_apart, open_run


def main(
    input_path: str,
    output_path: str,
    pages: BrowserSettings,
    dropped_path: str | None = None,
    num_tasks: int | None = None,
    javascript: bool = False,
    overwrite: bool = False,
) -> None:
    """Draw every reference page.

    Args:
        input_path: Tasks, JSONL; ground_truth is the page.
        output_path: Tasks whose page gives a picture, JSONL.
        dropped_path: Other tasks, each with its render_failure, JSONL.
        num_tasks: Number of tasks that are read, from the start of the file; all by default.
        javascript: Run the pages' own scripts.
        overwrite: Replace the outputs.
    """
    dropped_path = dropped_path or f"{output_path.removesuffix('.jsonl')}.dropped.jsonl"
    check_apart(input_path, output_path, dropped_path)
    tasks = read_records(input_path, Task, limit=num_tasks)
    settings = {
        "num_tasks": num_tasks,
        **pages.window(),
        "page_timeout": pages.page_timeout,
        "javascript": javascript,
    }
    with (
        pages.renderer(javascript=javascript, cache=0) as renderer,
        open_run(output_path, settings, [input_path], overwrite) as kept,
        open_run(dropped_path, settings, [input_path], overwrite) as dropped,
    ):
        left = [task for task in tasks if task.id not in kept.done | dropped.done]
        if kept.complete and dropped.complete:
            print(f"{output_path}: already complete")
        else:
            drawn = renderer.render_all(task.ground_truth for task in left)
            before = len(tasks) - len(left)
            bar = progress_bar(zip(left, drawn, strict=True), total=len(tasks), initial=before, unit="page")
            failed_by_machine = 0
            for task, rendered in bar:
                if rendered.failure is None:
                    kept.write(task.to_dict())
                elif rendered.failure["kind"] == "machine":
                    failed_by_machine += 1
                else:
                    dropped.write(task.to_dict() | {"render_failure": rendered.failure})
            if failed_by_machine:
                raise UserError(
                    f"{failed_by_machine} pages were not drawn because this machine is too busy or a browser does not "
                    "start. Run the same command again later: it tries only these."
                )
            reasons = Counter(row["render_failure"]["kind"] for row in dropped.records())
            summary = {"tasks": len(tasks), "kept": len(kept.done), "dropped": dict(reasons.most_common())}
            if not dropped.complete:
                dropped.finish(summary)
            if not kept.complete:
                kept.finish(summary)
        print_summary(kept.summary or {})


if __name__ == "__main__":
    run(main, released=FILTER)
