"""Step 4: several candidates for every turn of the collected trajectories, from the policy, without privileged
information.

    python scripts/sample_best_of_n.py --model_id meta-llama/Llama-3.1-8B-Instruct \
        --data_path rewarded.jsonl --save_path candidates.jsonl --data_fraction 0.1

Reads trajectories of simulate_interactions.py and the released offline file. The same command continues a run that was
stopped.
"""

from __future__ import annotations

from typing import Annotated

from sweet_rl.method.candidates import CandidateSettings, sample_file
from sweet_rl.models.base import Sampling
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.runs.cli import prefix, run
from sweet_rl.runs.released import SAMPLE
from sweet_rl.runs.step import StepSettings

SAMPLING = Sampling(n=16)


def main(
    candidates: CandidateSettings,
    input_path: str,
    output_path: str,
    model: ModelSettings,
    calls: CallSettings,
    step: Annotated[StepSettings, prefix("", limit=None)],
    sampling: Annotated[Sampling, prefix("", n="best_of_n", seed=None)] = SAMPLING,
) -> None:
    """Sample candidates for each turn.

    Args:
        input_path: Trajectories, JSONL. Failed dialogues are left out.
        output_path: Candidates, JSONL, one line per turn.
    """
    sample_file(candidates, sampling, model, calls, input_path, output_path, step)


if __name__ == "__main__":
    run(main, released=SAMPLE)
