"""The installed command: `sweet-rl NAME FLAGS` runs the script NAME.py, in an install of the package
`sweet_rl.commands`: `sweet-rl rank_best_of_n` is `python scripts/rank_best_of_n.py`.

Several GPUs: `torchrun -m sweet_rl.commands.train_dpo FLAGS`.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import sweet_rl

VISUALIZERS = "visualizers" if __name__ == "scripts" else "sweet_rl.visualizers"  # beside the scripts


def names() -> dict[str, str]:
    """The package of each script by its name."""
    folder = Path(__file__).parent
    folders = {folder: __name__, folder.parent / "visualizers": VISUALIZERS}
    return {path.stem: package for place, package in folders.items() for path in sorted(place.glob("[a-z]*.py"))}


def main() -> None:
    """Run the script that the first word of the command line names with the words after it."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in ("-h", "--help"):
        print("sweet-rl NAME FLAGS runs a script; sweet-rl NAME --help explains it.\n")
        print("\n".join(f"  {name}" for name in names()))
        return
    if name == "--version":
        print(f"sweet-rl {sweet_rl.__version__}")
        return
    if name not in names():
        known = ", ".join(names())
        print(f"error: sweet-rl has no command {name!r}; it has the names of the scripts: {known}.", file=sys.stderr)
        sys.exit(2)
    del sys.argv[1]
    runpy.run_module(f"{names()[name]}.{name}", run_name="__main__", alter_sys=True)
