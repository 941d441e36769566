"""The table of several agents and several draws of tasks, with intervals over both.

python -m lab.outcomes collect --study agents --runs runs/agents   # into lab/agents/results/outcomes.json
python -m lab.agents.crossed --study agents                        # table.md of that file
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
from scipy import stats

from lab.outcomes import LAB, committed, policies, shown
from lab.overview.overview import summary
from sweet_rl.runs.cli import run

Cells = Mapping[tuple[int, int], float]  # by agent and draw


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


def found(study: str) -> dict[str, dict[tuple[int, int], float]]:
    """Success in % by policy, agent and draw."""
    by_policy: dict[str, dict[tuple[int, int], float]] = {}
    for cell, own in committed(study).items():
        agent, draw = map(int, re.findall(r"\d+", cell))
        for policy, seeds in own.items():
            by_policy.setdefault(policy, {})[agent, draw] = seeds[0]
    return by_policy


def markdown(study: str) -> str:
    """Success of each method by agent and over all cells, and the declared differences."""
    success, known = found(study), policies(study)
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


def main(study: str) -> None:
    """Write the table.

    Args:
        study: Name of the study, whose `policies.json` has the declared differences (better, worse).
    """
    (LAB / study / "results/table.md").write_text(markdown(study))
    print(markdown(study))


if __name__ == "__main__":
    run(main)
