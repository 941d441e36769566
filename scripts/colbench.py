"""ColBench's Backend Programming for models behind an API or on a server, in one command: from the tasks to the table.

    OPENAI_API_KEY=... sweet-rl colbench --model gpt-4o --human gpt-4o-mini --limit 100

    sweet-rl colbench --model MODEL --model_hostname localhost:8000 --human HUMAN --human_hostname localhost:8001

    sweet-rl colbench --model A,B --model_hostname https://api.example/v1 --model_api_key_variable KEY \
        --human HUMAN --human_hostname https://api.human.example/v1 --human_api_key_variable HUMAN_KEY

    sweet-rl colbench --task_type html --protocol released --model MODEL --human HUMAN --limit 100 --estimate

It loads the tasks, prints an estimate of calls and tokens (--estimate stops there), checks that this machine can grade,
and makes one call to each model and to the human. Then it plays and grades the dialogues and prints the table with the
paper's rows. It writes what was measured and with what (results.json), and a page per model to read the dialogues.
Every reply is kept when it arrives: the same command continues a run that was stopped, and asks for nothing twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from sweet_rl.dialogues import HumanSettings
from sweet_rl.dialogues.backend.environment import CodeGrading
from sweet_rl.dialogues.frontend.environment import PageGrading
from sweet_rl.dialogues.simulate import CollectionSettings
from sweet_rl.dialogues.task_types import ProtocolSettings
from sweet_rl.evaluation.colbench import ColBench, ModelsAndTasks
from sweet_rl.models.base import Sampling
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.runs.cli import prefix, run
from sweet_rl.viewer.show import ViewSettings, show

CACHED = CallSettings(cache="calls")  # in the folder


def main(
    wanted: ModelsAndTasks,
    protocol: ProtocolSettings,
    env: Annotated[ModelSettings, prefix("human_", engine=None, tokenizer=None, bf16=None)],
    human: Annotated[HumanSettings, prefix("human_")],
    sampling: Annotated[Sampling, prefix("", n=None, seed=None)],
    code: Annotated[CodeGrading, prefix("", timeout=None, memory_mb=None, concurrency=None, paper_grader=None)],
    pages: Annotated[PageGrading, prefix("", concurrency=None, paper_grader=None)],
    collection: Annotated[CollectionSettings, prefix("", num_tasks=None, dialogues_per_task=None)],
    calls: Annotated[CallSettings, prefix("", cache=None)] = CACHED,
    overwrite: bool = False,
) -> None:
    """Evaluate models behind an API or on servers on ColBench.

    Args:
        overwrite: Replace dialogues and grades of other settings.
    """

    def write_page(graded: Path, page: Path) -> None:
        view = ViewSettings(str(graded), str(page), overwrite=True)
        if wanted.task_type == "code":
            show(view)
            return
        from sweet_rl.rendering.renderer import PageRenderer
        from sweet_rl.viewer.designs import Pictures

        with PageRenderer.from_settings(pages) as renderer:
            show(view, pictures=Pictures(renderer, None))

    benchmark = ColBench(wanted, protocol, collection, sampling, env, human, calls, code, pages)
    benchmark.run(write_page, overwrite)


if __name__ == "__main__":
    run(main)
