"""How often the critics of the study are right, over seeds.

python -m lab.dose.critics collect --runs runs/dose   # its WORLD/seedN/criticNAME.json into results/critics.json
python -m lab.dose.critics draw                       # results/critics.md of that file
"""

from __future__ import annotations

import json
from pathlib import Path

import fire

from lab.outcomes import percent
from lab.placebo.measure import DECISIONS, collect_critics

RESULTS = Path(__file__).parent / "results"
CRITICS = {  # by file of lab/dose/run.sh: dialogues, rate, weight of the KL
    "criticuntrained": "untrained (PMI)",
    "critic200-5e-4-0": "200 dialogues",
    "critic200-5e-4-1": "200 dialogues, KL",
    "critic3200-1e-4-0": "3,200 dialogues, rate 1e-4",
    "critic3200-5e-4-0": "3,200 dialogues",
    "critic3200-5e-4-1": "3,200 dialogues, KL",
}


def collect(runs: str = "runs/dose") -> None:
    """Put what lab.placebo.measure said of each critic into one file, which keeps what it had before."""
    collect_critics(runs, CRITICS, RESULTS / "critics.json")


def markdown(found: dict) -> str:
    """A row for each critic: decisions on turns, and held-out pairs of dialogues, in % with 95 % t intervals."""
    columns = [*DECISIONS, "success"]
    lines = ["| agent | critic | seeds | " + " | ".join(DECISIONS) + " | dialogue that succeeds |"]
    lines.append("| --- | --- | ---: |" + " ---: |" * len(columns))
    for world, critics in sorted(found.items(), reverse=True):
        for name, shown in CRITICS.items():
            if own := critics.get(name):
                cells = [percent([seed[column] for seed in own.values()]) for column in columns]
                lines.append(f"| {world} | {shown} | {len(own)} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def draw() -> None:
    """Write the table."""
    text = markdown(json.loads((RESULTS / "critics.json").read_text()))
    (RESULTS / "critics.md").write_text(text)
    print(text)


if __name__ == "__main__":
    fire.Fire({"collect": collect, "draw": draw})
