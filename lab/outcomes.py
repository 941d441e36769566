"""Tables of policies from the outcome of each test task, beside runs of earlier tables with the same seeds.

    python -m lab.outcomes collect --study repairs --runs runs/controls   # into lab/repairs/results/outcomes.json
    python -m lab.outcomes draw --study repairs                           # table.md of that file
    python -m lab.outcomes crossed --study agents                         # the same, of several agents and draws

A study's `policies.json` says what its policies are: `names` by file, `earlier` (world: file of a comparison, and the
names of its runs), `against`, the policies that the others are compared with, and `compared`, pairs (better, worse) of
policies whose difference over agents and draws was declared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import fire
import numpy as np
from scipy import stats

from sweet_rl.runs.records import Trajectory, read_records

LAB = Path(__file__).parent
ROOT = LAB.parent
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
METHODS = ("rejection fine-tuning", "multi-turn DPO", "SWEET-RL")
Outcomes = dict[str, dict[str, dict[str, str]]]  # world, policy, seed: 1 or 0 for each test task
Cells = Mapping[tuple[int, int], float]  # by agent and draw


@cache
def runs(file: str) -> dict[str, tuple[float, list[float]]]:
    """The success (or similarity) of each run of a comparison, in percent: its mean, and the values of its seeds."""
    comparison = json.loads((ROOT / file).read_text(encoding="utf-8"))
    measure = comparison["measure"]
    return {
        one["name"]: (100 * one[measure]["mean"], [100 * value for value in one[f"{measure}_by_seed"]])
        for one in comparison["runs"]
    }


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Mean and count of values; from two on their 95 % t interval, and p of a mean of 0."""
    found: dict[str, Any] = {"mean": float(np.mean(values)), "count": len(values)}
    if len(values) > 1:
        test = stats.ttest_1samp(values, 0)
        low, high = test.confidence_interval(0.95)
        found |= {"low": float(low), "high": float(high), "p": float(test.pvalue)}
    return found


def difference(a: Sequence[float], b: Sequence[float]) -> dict[str, Any]:
    """`summary` of a - b, paired."""
    return summary([x - y for x, y in zip(a, b, strict=True)])


def crossed(cells: Cells) -> dict[str, float]:
    """The mean over agents and draws, both random, one run a cell, and its 95 % interval: low and high.

    A design with a hole has no interval. With one agent, or one draw, it is the t interval over the others. Else, with
    a agents, d draws and mean squares A, D and E of agents, draws and the rest, the variance of the mean is
    (A + D - E) / (a d), with Satterthwaite's degrees of freedom, or E / (a d) where that is larger.
    """
    agents, draws = (sorted({key[at] for key in cells}) for at in (0, 1))
    values = list(cells.values())
    if len(values) < max(2, len(agents) * len(draws)):
        return {"mean": float(np.mean(values))}
    if min(len(agents), len(draws)) == 1:
        return summary(values)
    table = np.array([[cells[agent, draw] for draw in draws] for agent in agents])
    mean, (a, d) = table.mean(), table.shape
    by_agent, by_draw = table.mean(1, keepdims=True), table.mean(0, keepdims=True)
    freedom = (a - 1) * (d - 1)
    of_agents = d * ((by_agent - mean) ** 2).sum() / (a - 1)
    of_draws = a * ((by_draw - mean) ** 2).sum() / (d - 1)
    rest = ((table - by_agent - by_draw + mean) ** 2).sum() / freedom
    variance = of_agents + of_draws - rest
    if variance > rest:
        freedom = variance**2 / (of_agents**2 / (a - 1) + of_draws**2 / (d - 1) + rest**2 / freedom)
    half = stats.t.ppf(0.975, freedom) * np.sqrt(max(variance, rest) / (a * d))
    return {"mean": mean, "low": mean - half, "high": mean + half}


def collect(study: str, runs: str) -> None:
    """Put the outcomes of RUNS/WORLD/seedN/POLICY.graded.jsonl into a study's file, which keeps what it had before.

    Only policies that have a name are taken.
    """
    names, file = policies(study)["names"], LAB / study / "results/outcomes.json"
    found = json.loads(file.read_text()) if file.exists() else {}
    for path in sorted(Path(runs).glob("*/seed*/*.graded.jsonl")):
        policy, seed = path.name.removesuffix(".graded.jsonl"), path.parent.name.removeprefix("seed")
        policy = policy if policy in names else policy.removesuffix(".test")
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


def cells_of(study: str) -> dict[str, dict[tuple[int, int], float]]:
    """Success in % by policy, agent and draw."""
    by_policy: dict[str, dict[tuple[int, int], float]] = {}
    for cell, own in committed(study).items():
        agent, draw = map(int, re.findall(r"\d+", cell))
        for policy, seeds in own.items():
            by_policy.setdefault(policy, {})[agent, draw] = seeds[0]
    return by_policy


def crossed_markdown(study: str) -> str:
    """Success of each method by agent and over all cells, and the declared differences."""
    success, known = cells_of(study), policies(study)
    names = known["names"]
    agents, draws = (sorted({key[at] for cells in success.values() for key in cells}) for at in (0, 1))
    lines = ["| success % | " + " | ".join(f"agent {agent}" for agent in agents) + " | all | lowest, highest cell |"]
    lines.append("| --- |" + " ---: |" * (len(agents) + 2))
    for policy in [name for name in names if name in success]:
        cells = success[policy]
        means = [[cells[agent, draw] for draw in draws if (agent, draw) in cells] for agent in agents]
        row = [f"{np.mean(own):.1f}" if own else "" for own in [*means, list(cells.values())]]
        row.append(f"{min(cells.values()):.1f}, {max(cells.values()):.1f}")
        lines.append(f"| {names[policy]} | " + " | ".join(row) + " |")
    lines += ["", "| difference | points | cells above 0 |", "| --- | ---: | ---: |"]
    for better, worse in known["compared"]:
        one, other = success.get(better, {}), success.get(worse, {})
        gaps = {cell: one[cell] - other[cell] for cell in sorted(one.keys() & other.keys())}
        if gaps:
            above = sum(gap > 0 for gap in gaps.values())
            lines.append(f"| {names[better]} - {names[worse]} | {shown(crossed(gaps))} | {above} of {len(gaps)} |")
    return "\n".join(lines) + "\n"


def mended() -> str:
    """The tables of docs/results.md before and after the mend of the order of examples (CHANGELOG.md)."""
    lines = ["| success %, five seeds | before | after | after minus before |", "| --- | ---: | ---: | ---: |"]
    differences = ["| difference | before | after |", "| --- | ---: | ---: |"]
    for world, folder in {"quick world": "results/mini", "hard world": "results/mini_hard"}.items():
        before, after = runs(f"{folder}/table2.json"), runs(f"{folder}/mended.json")
        for name in METHODS:
            (old, seeds), (new, new_seeds) = before[name], after[name]
            lines.append(f"| {world}, {name} | {old:.1f} | {new:.1f} | {shown(difference(new_seeds, seeds))} |")
        for better, worse in ((2, 1), (2, 0), (1, 0)):
            better, worse = METHODS[better], METHODS[worse]
            cells = [shown(difference(table[better][1], table[worse][1])) for table in (before, after)]
            differences.append(f"| {world}, {better} - {worse} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *differences]) + "\n"


def draw(study: str) -> None:
    """Write the table."""
    (LAB / study / "results/table.md").write_text(markdown(study))
    print(markdown(study), together(), sep="\n")


def draw_crossed(study: str) -> None:
    """Write the table of a study of agents and draws."""
    (LAB / study / "results/table.md").write_text(crossed_markdown(study))
    print(crossed_markdown(study))


if __name__ == "__main__":
    fire.Fire({"collect": collect, "draw": draw, "crossed": draw_crossed})
