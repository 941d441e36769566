"""Tables of policies from the outcome of each test task, beside runs of earlier tables with the same seeds.

    python -m lab.outcomes collect --study repairs --runs runs/repairs   # into lab/repairs/results/outcomes.json
    python -m lab.outcomes draw --study repairs                          # table.md of that file

A study's `policies.json` says what its policies are: `names` by file, `earlier` (world: file of a comparison, and the
names of its runs), and `against`, the policies that the others are compared with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import fire
import numpy as np

from lab.overview.overview import difference, runs, summary
from sweet_rl.runs.records import Trajectory, read_records

LAB = Path(__file__).parent
# Rows of the table of docs/results.md: study, and its policy in both worlds or in each.
TOGETHER: dict[str, tuple[str, str | dict[str, str]]] = {
    "SWEET-RL": ("controls", "sweet"),
    "random order": ("repairs", "random"),
    "order of the hidden rules": ("repairs", "oracle"),
    "the same, `--rule gap`": ("repairs", "oracle-gap"),
    "pairs by `--rule gap`": ("repairs", "release-gap"),
    "chosen texts only": ("repairs", "release-chosen"),
    "paper's reference": ("repairs", "paper"),
    "the same, `--place_answers`": ("repairs", "paper-answers"),
    "multi-turn DPO, equal tokens": ("controls", {"quick": "dpo-1.test", "hard": "dpo-2.test"}),
    "rejection fine-tuning, equal tokens": ("controls", {"quick": "rft-16.test", "hard": "rft-8.test"}),
    "distillation": ("controls", "distillation-16.test"),
}
Outcomes = dict[str, dict[str, dict[str, str]]]  # world, policy, seed: 1 or 0 for each test task


def collect(study: str, runs: str) -> None:
    """Put the outcomes of RUNS/WORLD/seedN/POLICY.graded.jsonl into a study's file, which keeps what it had before.

    Only policies that have a name are taken.
    """
    names, file = policies(study)["names"], LAB / study / "results/outcomes.json"
    found = json.loads(file.read_text()) if file.exists() else {}
    for path in sorted(Path(runs).glob("*/seed*/*.graded.jsonl")):
        policy, seed = path.name.removesuffix(".graded.jsonl"), path.parent.name.removeprefix("seed")
        if policy in names:
            dialogues = sorted(read_records(str(path), Trajectory), key=lambda one: one.task.id)
            own = found.setdefault(path.parents[1].name, {}).setdefault(policy, {})
            own[seed] = "".join(str(int(one.reward == 1.0)) for one in dialogues)
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def policies(study: str) -> dict:
    """What the policies of a study are."""
    return json.loads((LAB / study / "policies.json").read_text())


def success(outcomes: Outcomes, earlier: dict) -> dict[str, dict[str, dict[int, float]]]:
    """Success in % by world, policy and seed, with the runs of earlier tables."""
    found = {
        world: {
            policy: {int(seed): 100 * float(np.mean([bit == "1" for bit in bits])) for seed, bits in seeds.items()}
            for policy, seeds in policies.items()
        }
        for world, policies in outcomes.items()
    }
    for world, before in earlier.items():
        for policy, name in before["runs"].items():
            found.setdefault(world, {})[policy] = dict(enumerate(runs(before["file"])[name][1]))
    return found


def paired(better: dict[int, float], worse: dict[int, float]) -> str:
    """Mean difference over the seeds of both, with its 95 % t interval; of two seeds both, as in `percent`."""
    seeds = sorted(set(better) & set(worse))
    if len(seeds) == 2:
        first, second = (better[seed] - worse[seed] for seed in seeds)
        return f"{(first + second) / 2:+.1f} ({first:+.1f}, {second:+.1f})"
    return shown(difference([better[seed] for seed in seeds], [worse[seed] for seed in seeds]))


def shown(one: Mapping[str, float]) -> str:
    """A mean in points with its interval, if it has one."""
    interval = f" ({one['low']:+.1f} to {one['high']:+.1f})" if "low" in one else ""
    return f"{one['mean']:+.1f}{interval}"


def percent(values: Sequence[float]) -> str:
    """The mean of values in % with its 95 % t interval; of two values both, because theirs is as wide as the scale."""
    if not values:
        return ""
    one = summary(values)
    if len(values) == 2:
        return f"{one['mean']:.1f} ({values[0]:.1f}, {values[1]:.1f})"
    interval = f" ({max(one['low'], 0.0):.1f} to {min(one['high'], 100.0):.1f})" if len(values) > 2 else ""
    return f"{one['mean']:.1f}{interval}"


def committed(study: str) -> dict[str, dict[str, dict[int, float]]]:
    """`success` of the committed outcomes of a study."""
    outcomes = json.loads((LAB / study / "results/outcomes.json").read_text())
    return success(outcomes, policies(study)["earlier"])


def together() -> str:
    """The table of both studies in docs/results.md: success of five seeds, and its paired difference from SWEET-RL."""
    found = {study: committed(study) for study, _ in TOGETHER.values()}
    lines = ["| | quick world | minus SWEET-RL | hard world | minus SWEET-RL |", "| --- | ---: | ---: | ---: | ---: |"]
    for name, (study, policy) in TOGETHER.items():
        cells = []
        for world in ("quick", "hard"):
            seeds = found[study][world].get(policy[world] if isinstance(policy, dict) else policy)
            if seeds is None:
                cells += ["", ""]  # not run
                continue
            assert len(seeds) == 5, f"{name}: {len(seeds)} seeds"
            gap = "" if name == "SWEET-RL" else paired(seeds, found["controls"][world]["sweet"])
            cells += [f"{np.mean(list(seeds.values())):.1f}", gap]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def markdown(study: str) -> str:
    """A row for each world and policy of the committed outcomes."""
    known = policies(study)
    names, against = known["names"], known["against"]
    lines = ["| world | policy | seeds | success % | " + " | ".join(f"minus {names[one]}" for one in against) + " |"]
    lines.append("| --- | --- | ---: | ---: |" + " ---: |" * len(against))
    for world, found in sorted(committed(study).items(), reverse=True):
        for policy in [name for name in names if name in found]:
            seeds = found[policy]
            gaps = ["" if other == policy or other not in found else paired(seeds, found[other]) for other in against]
            mean = f"{np.mean(list(seeds.values())):.1f}"
            lines.append(f"| {world} | {names[policy]} | {len(seeds)} | {mean} | " + " | ".join(gaps) + " |")
    return "\n".join(lines) + "\n"


def draw(study: str) -> None:
    """Write the table."""
    (LAB / study / "results/table.md").write_text(markdown(study))
    print(markdown(study), together(), sep="\n")


if __name__ == "__main__":
    fire.Fire({"collect": collect, "draw": draw})
