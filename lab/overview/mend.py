"""The figures of both worlds before and after the mend of the order of examples (CHANGELOG.md).

python -m lab.overview.mend     # the tables of docs/results.md, from results/mini*/table2.json and mended.json
"""

from __future__ import annotations

from lab.outcomes import shown
from lab.overview.overview import difference, runs

WORLDS = {"quick world": "results/mini", "hard world": "results/mini_hard"}
METHODS = ("rejection fine-tuning", "multi-turn DPO", "SWEET-RL", "SWEET-RL (seed model as reference)")
PAIRS = (
    ("SWEET-RL", "multi-turn DPO"),
    ("SWEET-RL", "rejection fine-tuning"),
    ("multi-turn DPO", "rejection fine-tuning"),
)


def markdown() -> str:
    """Success by method, and differences of methods, before and after."""
    lines = ["| success %, five seeds | before | after | after minus before |", "| --- | ---: | ---: | ---: |"]
    differences = ["| difference | before | after |", "| --- | ---: | ---: |"]
    for world, folder in WORLDS.items():
        before, after = runs(f"{folder}/table2.json"), runs(f"{folder}/mended.json")
        for name in METHODS:
            if name in after and name in before:
                (old, seeds), (new, new_seeds) = before[name], after[name]
                gap = shown(difference(new_seeds, seeds))
                lines.append(f"| {world}, {name} | {old:.1f} | {new:.1f} | {gap} |")
        for better, worse in PAIRS:
            cells = [shown(difference(table[better][1], table[worse][1])) for table in (before, after)]
            differences.append(f"| {world}, {better} - {worse} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *differences]) + "\n"


if __name__ == "__main__":
    print(markdown())
