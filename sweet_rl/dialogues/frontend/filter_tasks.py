"""Which frontend tasks have a reference page that can be drawn."""

from __future__ import annotations

from collections import Counter

from sweet_rl.rendering.renderer import PageRenderer
from sweet_rl.rendering.settings import BrowserSettings
from sweet_rl.runs.cli import to_settings
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.paths import check_paths
from sweet_rl.runs.progress import progress_bar
from sweet_rl.runs.records import Task, read_records
from sweet_rl.runs.run import open_run
from sweet_rl.runs.step import StepSettings


def filter_tasks(input_path: str, output_path: str, pages: BrowserSettings, step: StepSettings) -> dict:
    """Draw every reference page. A killed run continues with the same call.

    The tasks whose page gives no picture are written to OUTPUT.dropped.jsonl, each with its `render_failure`.

    Args:
        input_path: Tasks.
        output_path: The tasks whose page gives a picture.
        pages: How pages are drawn.
        step: Number of tasks that are read, and whether older outputs are replaced.

    Returns:
        The summary: tasks, kept, dropped by the kind of failure.

    Raises:
        UserError: Before anything is written; or, once the others are written, because this machine failed.
    """
    dropped_path = f"{output_path.removesuffix('.jsonl')}.dropped.jsonl"
    check_paths([output_path, dropped_path], [input_path])
    tasks = read_records(input_path, Task, step.limit)
    settings = to_settings(pages, step, page_timeout=pages.page_timeout)

    with open_run(output_path, settings, [input_path], step.overwrite) as kept:
        if kept.finished:
            return kept.show()
        with (
            PageRenderer.from_settings(pages, cache=0) as renderer,
            open_run(dropped_path, settings, [input_path], step.overwrite) as dropped,
        ):
            missing = [task for task in tasks if task.id not in kept.done | dropped.done]
            drawn = progress_bar(renderer.render_all(task.ground_truth for task in missing), total=len(missing))
            busy = 0
            for task, rendered in zip(missing, drawn, strict=True):
                if rendered.failure is None:
                    kept.write(task.to_dict())
                elif rendered.failure["kind"] == "machine":
                    busy += 1
                else:
                    dropped.write(task.to_dict() | {"render_failure": rendered.failure})
            if busy:
                raise UserError(
                    f"{busy} pages were not drawn because this machine is too busy or a browser does not start. Run "
                    "the same command again later: it tries only these."
                )
            reasons = Counter(row["render_failure"]["kind"] for row in dropped.records())
            summary = {"tasks": len(tasks), "kept": len(kept.done), "dropped": dict(reasons.most_common())}
            if not dropped.finished:
                dropped.finish(summary, show=None, may_be_empty=True)
            return kept.finish(summary)
