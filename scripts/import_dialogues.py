"""Trajectories from a log of verifiers or inspect_ai, for the other scripts and the viewer (docs/integrations.md).

python scripts/import_dialogues.py --input_path outputs/NAME/traces.jsonl --output_path graded.jsonl
python scripts/import_dialogues.py --input_path logs/NAME.eval --output_path graded.jsonl
"""

from __future__ import annotations

from sweet_rl.cli import run
from sweet_rl.integrations.logs import read_dialogues
from sweet_rl.runs.run import open_run


def main(input_path: str, output_path: str, overwrite: bool = False) -> None:
    """Import dialogues.

    Args:
        input_path: File traces.jsonl of verifiers, or a log of inspect_ai.
        output_path: Trajectories with their rewards, JSONL.
        overwrite: Replace the output.
    """
    dialogues, failed = read_dialogues(input_path)
    with open_run(output_path, {}, [input_path], overwrite) as output:
        if not output.complete:
            output.write_missing(trajectory.to_dict() for trajectory in dialogues)
            output.finish({"trajectories": len(dialogues), "without_reward": failed})
    print(f"{output_path}: {len(dialogues)} dialogues")
    if failed:
        print(f"{failed} dialogues of {input_path} have no reward and are left out; run the evaluation again for them.")


if __name__ == "__main__":
    run(main)
