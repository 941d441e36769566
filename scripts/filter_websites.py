"""Keep the frontend tasks whose reference page can be drawn, and record why the others cannot.

    python scripts/filter_websites.py --input_path train.jsonl --output_path train.drawn.jsonl

Dropped tasks go to OUTPUT.dropped.jsonl with the reason in `render_failure`. The same command
continues a run that was stopped, and tries the pages again that failed because of the machine.
"""

from __future__ import annotations

from typing import Annotated

from sweet_rl.dialogues.frontend.filter_tasks import filter_tasks
from sweet_rl.rendering.settings import BrowserSettings
from sweet_rl.runs.cli import prefix, run
from sweet_rl.runs.released import FILTER
from sweet_rl.runs.step import StepSettings


def main(
    input_path: str,
    output_path: str,
    pages: BrowserSettings,
    step: Annotated[StepSettings, prefix("", limit="num_tasks", shard=None)],
) -> None:
    """Draw every reference page.

    Args:
        input_path: Tasks, JSONL; ground_truth is the page.
        output_path: The tasks whose page gives a picture.
    """
    filter_tasks(input_path, output_path, pages, step)


if __name__ == "__main__":
    run(main, released=FILTER)
