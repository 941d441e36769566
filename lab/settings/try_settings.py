"""Try settings of every method on validation tasks, and choose the best ones.

    python -m lab.settings.try_settings --world quick --output_dir runs/settings-quick

Every try is a whole training and evaluation by dodo.py. The validation tasks share no solution with the tasks of the
tables, and the seeds begin at 100. The same command continues after a stop. At the end settings.json and settings.md in
the output folder have every try and the choice.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Literal

from lab.settings.tries import Try, read_tries, write_log
from sweet_rl.runs.cli import run
from sweet_rl.runs.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
FIRST_SEED = 100  # the tables take the seeds below
SHARED = ("trajectories", "rewarded", "pairs", "pairs_with_c", "candidates")


def main(
    output_dir: str,
    world: Literal["quick", "hard"] = "quick",
    tries: str = "",
    seeds: int = 1,
    smoke: bool = False,
) -> None:
    """Try settings.

    Args:
        output_dir: Folder of everything.
        world: World of the tasks.
        tries: YAML file with the settings to try; lab/settings/configs/WORLD.yaml by default.
        seeds: Number of seeds of each try.
        smoke: Every step on a handful of tasks.
    """
    out = Path(output_dir).resolve()
    planned = read_tries(tries or ROOT / "lab" / "settings" / "configs" / f"{world}.yaml")
    environment = {"WORLD": world, "SEED": str(FIRST_SEED), "SEEDS": str(seeds), "SMOKE": "1" if smoke else ""}
    doit("steps:tasks/train.jsonl", **environment, OUT=str(out / "tables"))
    make_tasks(out, world, smoke)
    environment |= {"TRAIN_TASKS": f"{out}/tasks/train.jsonl", "TEST_TASKS": f"{out}/tasks/test.jsonl"}
    folders = [f"seed{seed}" for seed in range(FIRST_SEED, FIRST_SEED + seeds)]
    if doit(*(f"steps:{folder}/candidates.jsonl" for folder in folders), **environment, OUT=str(out / "shared")):
        raise UserError(f"the steps that all tries share have failed: see {out / 'shared' / 'logs'}.")
    ended, graded = [], []
    for one in planned:
        place = out / f"try{one.number}_{one.run}"
        prepare(one, place, out / "shared", folders)
        steps = [f"steps:{folder}/{one.run}.graded.jsonl" for folder in folders]
        status = doit(*steps, **environment, OUT=str(place), SETTINGS=str(place / "settings.json"))
        check_steps(one, place / folders[0], status)
        ended.append(replace(one, failed=status != 0))
        graded.append([str(place / folder / f"{one.run}.graded.jsonl") for folder in folders])
    write_log(out / "settings", ended, graded)
    print((out / "settings.md").read_text(encoding="utf-8"))


def doit(*tasks: str, **environment: str) -> int:
    """Run tasks of dodo.py; 0 if all ended well, 1 if a step failed. Raises UserError for any other end."""
    status = subprocess.call(["doit", *tasks], cwd=ROOT, env=os.environ | environment)
    if status not in (0, 1):  # 1: a step failed; 3: there is no such step
        raise UserError(f"doit {' '.join(tasks)} ended with status {status}; the same command continues.")
    return status


def make_tasks(out: Path, world: str, smoke: bool) -> None:
    """Make the training and validation tasks, apart from those of the tables."""
    sizes = ["--num_train", "16", "--num_test", "8"] if smoke else ["--num_train", "50", "--num_test", "200"]
    of_tables = f"{out}/tables/tasks/train.jsonl,{out}/tables/tasks/test.jsonl"
    words = ["scripts/make_mini_tasks.py", "--world", world, *sizes, "--seed", "12", "--apart_from", of_tables]
    subprocess.run(["python", *words, "--output_dir", f"{out}/tasks"], cwd=ROOT, check=True)


def prepare(one: Try, place: Path, shared: Path, folders: list[str]) -> None:
    """Copy what all tries share, and write the settings of the try as dodo.py reads them."""
    for folder in folders:
        (place / folder).mkdir(parents=True, exist_ok=True)
        for name in SHARED:
            for file in (f"{name}.jsonl", f"{name}.jsonl.manifest.json"):
                if not (place / folder / file).exists():
                    shutil.copyfile(shared / folder / file, place / folder / file)
    log = {"methods": {one.method: {"tries": [{"settings": one.settings, "chosen": True}]}}}
    (place / "settings.json").write_text(json.dumps(log), encoding="utf-8")


def check_steps(one: Try, folder: Path, status: int) -> None:
    """Raise UserError if the settings name a step that is not behind the agent."""
    missing = [s for s in one.settings if not (folder / s).exists() and not (folder / f"{s}.jsonl").exists()]
    if missing and status == 0:
        raise UserError(f"{one.method}: {', '.join(missing)}: no such step is behind {one.run}.")


if __name__ == "__main__":
    run(main)
