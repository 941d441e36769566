"""The table of lab/repairs/results: success of each repair, and its difference to what it repairs.

python -m lab.repairs.table collect --runs runs/repairs   # the outcome of each test task into outcomes.json
python -m lab.repairs.table draw                          # table.md of that file
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import fire
import numpy as np

from lab.overview.overview import difference, runs
from sweet_rl.records import Trajectory, read_records

RESULTS = Path(__file__).parent / "results"
OUTCOMES = RESULTS / "outcomes.json"
NAMES = {
    "paper": "paper's reference",
    "paper-answers": "paper's reference, answers by their reward",
    "release": "release's reference (SWEET-RL in the results)",
    "release-answers": "release's reference, answers by their reward",
    "random-answers": "questions at random, answers by their reward",
    "release-gap": "release's reference, pairs by a gap",
}
EARLIER = {"paper": "seed model as reference", "release": "SWEET-RL"}
TABLES = {"quick": "results/mini/table3.json", "hard": "results/mini_hard/table3.json"}
Outcomes = dict[str, dict[str, dict[str, str]]]  # world, policy, seed: 1 or 0 of each test task


def collect(runs: str = "runs/repairs") -> None:
    """Put the outcomes of all policies into one file."""
    found: Outcomes = defaultdict(lambda: defaultdict(dict))
    for path in sorted(Path(runs).glob("*/seed*/*.graded.jsonl")):
        dialogues = sorted(read_records(str(path), Trajectory), key=lambda one: one.task.id)
        policy, seed = path.name.removesuffix(".graded.jsonl"), path.parent.name.removeprefix("seed")
        found[path.parents[1].name][policy][seed] = "".join(str(int(one.reward == 1.0)) for one in dialogues)
    RESULTS.mkdir(exist_ok=True)
    OUTCOMES.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def success(outcomes: Outcomes) -> dict[str, dict[str, dict[int, float]]]:
    """Success in % by world, policy and seed, with the policies that were run before."""
    found = {
        world: {
            policy: {int(seed): 100 * float(np.mean([bit == "1" for bit in bits])) for seed, bits in seeds.items()}
            for policy, seeds in policies.items()
        }
        for world, policies in outcomes.items()
    }
    for world, policies in found.items():
        if world in TABLES:
            policies |= {policy: dict(enumerate(runs(TABLES[world])[name][1])) for policy, name in EARLIER.items()}
    return found


def paired(better: dict[int, float], worse: dict[int, float]) -> str:
    """Mean difference over the seeds of both, with its 95 % t interval."""
    seeds = sorted(set(better) & set(worse))
    one = difference([better[seed] for seed in seeds], [worse[seed] for seed in seeds])
    interval = f" ({one['low']:+.1f} to {one['high']:+.1f})" if "low" in one else ""
    return f"{one['mean']:+.1f}{interval}"


def markdown(outcomes: Outcomes) -> str:
    """A row for each world and policy."""
    lines = ["| world | order of candidates, pairs | seeds | success % | minus paper's reference | minus release's |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: |")
    for world, policies in sorted(success(outcomes).items(), reverse=True):
        for policy in [name for name in NAMES if name in policies]:
            seeds = policies[policy]
            others = [
                "" if other == policy or other not in policies else paired(seeds, policies[other]) for other in EARLIER
            ]
            mean = f"{np.mean(list(seeds.values())):.1f}"
            lines.append(f"| {world} | {NAMES[policy]} | {len(seeds)} | {mean} | " + " | ".join(others) + " |")
    return "\n".join(lines) + "\n"


def draw() -> None:
    """Write the table."""
    table = markdown(json.loads(OUTCOMES.read_text()))
    (RESULTS / "table.md").write_text(table)
    print(table)


if __name__ == "__main__":
    fire.Fire({"collect": collect, "draw": draw})
