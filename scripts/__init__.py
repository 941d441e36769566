"""The installed command: `sweet-rl NAME FLAGS` runs one of the scripts, in an install the package `sweet_rl.commands`.

A script is called by its short name or by that of its file: `sweet-rl rank` and `sweet-rl rank_best_of_n` are
`python scripts/rank_best_of_n.py`. Several GPUs: `torchrun -m sweet_rl.commands.train_dpo FLAGS`.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import sweet_rl

COMMANDS = {
    "colbench": "colbench",
    "chat": "chat",
    "simulate": "simulate_interactions",
    "play-best": "play_best_of_n",
    "evaluate": "evaluate_code",
    "evaluate-html": "evaluate_html",
    "train": "train_dpo",
    "train-sft": "train_sft",
    "train-value": "train_value",
    "score-turns": "score_turns",
    "sample": "sample_best_of_n",
    "grade-candidates": "grade_candidates",
    "check-credit": "check_credit",
    "rank": "rank_best_of_n",
    "pairs": "generate_random_pairs_from_ranks",
    "export": "export",
    "compare": "compare_runs",
    "view": "visualize_dialogue_histories",
    "view-html": "visualize_design_dialogue_histories",
    "mini-tasks": "make_mini_tasks",
    "websight": "prepare_websight",
}
REMOVED = {
    "import": "docs/files.md has the lines that turn messages or ShareGPT rows into trajectories",
    "serve_openenv": "docs/integrations.md shows how to play and grade a task with any agent",
}
"""Commands of before, and what to do instead."""
VISUALIZERS = "visualizers" if __name__ == "scripts" else "sweet_rl.visualizers"  # beside the scripts


def main() -> None:
    """Run the script that the first word of the command line names with the words after it."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in ("-h", "--help"):
        print("sweet-rl NAME FLAGS runs a script; sweet-rl NAME --help explains it.\n")
        print("\n".join(f"  {short:14} {script}.py" for short, script in COMMANDS.items()))
        print(f"  by file name   {', '.join(sorted(_scripts() - {*COMMANDS.values()}))}")
        return
    if name == "--version":
        print(f"sweet-rl {sweet_rl.__version__}")
        return
    script = COMMANDS.get(name, name)
    if script not in _scripts() | {*COMMANDS.values()}:
        remedy = REMOVED.get(name, "sweet-rl --help lists them")
        print(f"error: sweet-rl has no command {name!r}: {remedy}.", file=sys.stderr)
        sys.exit(2)
    package = VISUALIZERS if script.startswith("visualize") else __name__
    del sys.argv[1]
    runpy.run_module(f"{package}.{script}", run_name="__main__", alter_sys=True)


def _scripts() -> set[str]:
    return {path.stem for path in Path(__file__).parent.glob("[a-z]*.py")}
