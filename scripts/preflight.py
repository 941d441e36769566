"""Before a long run: whether this machine, its models, its disk and the human's server are ready for it, in seconds.

    python scripts/preflight.py --agent_model meta-llama/Llama-3.1-8B-Instruct \\
        --env_model meta-llama/Llama-3.1-70B-Instruct --hostname node1:8000 --output_dir runs/backend \\
        --tasks colbench/backend/train \\
        --trainings paper/backend/critic.yaml,paper/backend/actor.yaml --launch "torchrun --nproc_per_node 8"

Each line is `ok: ...`, or `FAILED: ...` with the remedy; the exit status is 1 if one failed.
"""

from __future__ import annotations

from sweet_rl.dialogues.task_types import ProtocolSettings
from sweet_rl.runs.cli import run
from sweet_rl.training.preflight import PreflightSettings, preflight


def main(planned: PreflightSettings, protocol: ProtocolSettings, task_type: str = "code") -> None:
    """Check what a run needs before it starts.

    Args:
        task_type: Domain of the dialogues, whose protocol may need files.
    """
    preflight(planned, protocol, task_type)


if __name__ == "__main__":
    run(main)
