"""The tables of critics: of the placebos, and of those that were trained on more dialogues.

python -m lab.pretraining.critic_tables collect --part placebo   # runs/placebo into results/placebo_critics.json
python -m lab.pretraining.critic_tables draw --part placebo      # results/placebo_critics.md of that file

The parts are `placebo` and `dose`. `measure.py` wrote the figures of each critic into RUNS/WORLD/seedN/CRITIC.json.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import fire
import numpy as np

from lab.outcomes import percent
from lab.pretraining.measure import DECISIONS, KINDS
from lab.pretraining.placebo_pairs import LABELS

RESULTS = Path(__file__).parent / "results"
REFERENCES = {"seed": "paper's", "seed_without_c": "release's"}
TRAINED_ON = {"untrained": "nothing: the seed model", **LABELS}
DOSES = {  # by file of dose.sh: dialogues, rate, weight of the KL
    "criticuntrained": "untrained (PMI)",
    "critic200-5e-4-0": "200 dialogues",
    "critic200-5e-4-1": "200 dialogues, KL",
    "critic3200-1e-4-0": "3,200 dialogues, rate 1e-4",
    "critic3200-5e-4-0": "3,200 dialogues",
    "critic3200-5e-4-1": "3,200 dialogues, KL",
}
PLACEBOS = {f"{label}-{reference}" for label, reference in product(TRAINED_ON, REFERENCES)}
NAMES = {"placebo": PLACEBOS, "dose": set(DOSES)}
Found = dict[str, dict[str, dict[str, Any]]]  # world, critic, seed: the figures


def collect(part: str, runs: str = "") -> None:
    """Put the figures of a part's critics into one file, which keeps what it had before."""
    file = RESULTS / f"{part}_critics.json"
    found: Found = json.loads(file.read_text()) if file.exists() else {}
    for path in sorted(Path(runs or f"runs/{part}").glob("*/seed*/*.json")):
        if path.stem in NAMES[part]:  # manifests lie beside them
            own = found.setdefault(path.parents[1].name, {}).setdefault(path.stem, {})
            own[path.parent.name] = json.loads(path.read_text())
    file.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def placebo(found: Found) -> str:
    """For each world and reference a row for each label: decisions and pairs of dialogues in %, mean score of kinds."""
    columns = [*DECISIONS, "success", "longer"]
    heads = [*DECISIONS, "dialogue that succeeds", "longer dialogue", *KINDS]
    parts = []
    for world, (reference, name) in product(sorted(found, reverse=True), REFERENCES.items()):
        lines = [f"{world} world, {name} reference", "", *_head(["trained on"], heads)]
        for label, shown in TRAINED_ON.items():
            if own := list(found[world].get(f"{label}-{reference}", {}).values()):
                cells = [percent([seed[column] for seed in own if seed[column] is not None]) for column in columns]
                for kind in KINDS:
                    known = [seed[kind] for seed in own if kind in seed]
                    cells.append(f"{np.mean(known):+.4f}" if known else "")
                lines.append(f"| {shown} | {len(own)} | " + " | ".join(cells) + " |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def dose(found: Found) -> str:
    """A row for each critic: decisions on turns, and held-out pairs of dialogues, in % with 95 % t intervals."""
    columns = [*DECISIONS, "success"]
    lines = _head(["agent", "critic"], [*DECISIONS, "dialogue that succeeds"])
    for world, critics in sorted(found.items(), reverse=True):
        for name, shown in DOSES.items():
            if own := critics.get(name):
                cells = [percent([seed[column] for seed in own.values()]) for column in columns]
                lines.append(f"| {world} | {shown} | {len(own)} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _head(names: list[str], figures: list[str]) -> list[str]:
    rule = "| --- " * len(names) + "| ---: " * (len(figures) + 1) + "|"
    return ["| " + " | ".join([*names, "seeds", *figures]) + " |", rule]


TABLES = {"placebo": placebo, "dose": dose}


def committed(part: str) -> str:
    """The table of the committed figures of a part."""
    return TABLES[part](json.loads((RESULTS / f"{part}_critics.json").read_text()))


def draw(part: str) -> None:
    """Write the table of a part."""
    text = committed(part)
    (RESULTS / f"{part}_critics.md").write_text(text)
    print(text)


if __name__ == "__main__":
    fire.Fire({"collect": collect, "draw": draw})
