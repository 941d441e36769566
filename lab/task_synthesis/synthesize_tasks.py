"""New backend tasks from a text corpus, proposed by a language model and checked in the sandbox.

    python -m lab.task_synthesis.synthesize_tasks --model_id meta-llama/Llama-3.1-70B-Instruct --hostname node1 \
        --corpus_path articles/ --output_path tasks.jsonl --num_tasks 10000 --exclude test.jsonl

Every proposal and the reason for which it was dropped are kept in OUTPUT.candidates.jsonl. The same command continues
a run that was stopped. A proposal is dropped if it cannot be read as a task, if its reference fails or gives different
results on another run, if a trivial function passes its tests, or if it is like an earlier task.
"""

from __future__ import annotations

from typing import Annotated

from lab.task_synthesis.task_proposals import SynthesisSettings, synthesize
from sweet_rl.models.base import Sampling
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.runs.cli import prefix, run
from sweet_rl.runs.step import StepSettings

SAMPLING = Sampling(max_tokens=2048)


def main(
    synthesis: SynthesisSettings,
    output_path: str,
    model: Annotated[ModelSettings, prefix("", tokenizer=None)],
    calls: CallSettings,
    step: Annotated[StepSettings, prefix("", limit=None, shard=None)],
    sampling: Annotated[Sampling, prefix("", top_p=None, n=None, seed=None)] = SAMPLING,
) -> None:
    """Synthesise tasks.

    Args:
        output_path: Tasks, JSONL.
    """
    synthesize(synthesis, sampling, model, calls, output_path, step)


if __name__ == "__main__":
    run(main)
