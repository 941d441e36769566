"""What a critic of mini tasks prefers: decisions of the oracle, pairs of dialogues, mean scores of kinds of turns.

python -m lab.placebo.measure one --ranked_path ranked.jsonl --credited_path credited.jsonl --output_path true.json
python -m lab.placebo.measure collect --runs runs/placebo     # all of them into results/critics.json
python -m lab.placebo.measure draw                            # table.md of that file
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection
from itertools import product
from pathlib import Path
from typing import Any

import fire
import numpy as np

from lab.critics.credit_accuracy import credit_accuracy, judged, read_judged
from lab.outcomes import percent
from lab.placebo.pairs import LABELS
from sweet_rl.records import Trajectory, read_records

RESULTS = Path(__file__).parent / "results"
KINDS = ("useful", "useless", "repeated", "early", "complete")
DECISIONS = ("useful over useless question", "question over early answer", "complete answer over question")
REFERENCES = {"seed": "paper's", "seed_without_c": "release's"}


def one(ranked_path: str, credited_path: str, output_path: str) -> None:
    """Measure a critic on ranked candidates and on credited dialogues of held-out tasks."""
    right: dict[tuple[str, str], bool] = {}
    turns = [judged(row, right) for row in read_judged([ranked_path], right)[0]]
    groups = credit_accuracy([turns])["groups"]
    scores = defaultdict(list)
    for turn in turns:
        for word, score in zip(turn.words, turn.scores, strict=True):
            scores[word].append(score)
    found = {name: _percent(groups[name]["accuracy"]) for name in DECISIONS}
    found |= dialogues(read_records(credited_path, Trajectory))
    found |= {kind: round(float(np.mean(scores[kind])), 4) for kind in KINDS if scores[kind]}
    Path(output_path).write_text(json.dumps(found) + "\n")
    print(output_path, found)


def dialogues(credited: list[Trajectory]) -> dict[str, float | None]:
    """How often the sum of a dialogue's turns is higher for the one that succeeded, and for the longer one, in %."""
    outcome, length = [], []
    tasks = defaultdict(list)
    for dialogue in credited:
        tasks[dialogue.task.id].append(dialogue)
    for a, b in (pair for own in tasks.values() for pair in product(own, own)):
        higher = 0.5 * (1 + np.sign(sum(a.turn_credit) - sum(b.turn_credit)))
        if (a.reward, b.reward) == (1.0, 0.0):
            outcome.append(higher)
        if len(a.turn_credit) > len(b.turn_credit):
            length.append(higher)
    return {
        name: _percent(np.mean(pairs)) if pairs else None for name, pairs in (("success", outcome), ("longer", length))
    }


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * float(share), 2)


def collect(runs: str = "runs/placebo") -> None:
    """Put WORLD/seedN/LABEL-REFERENCE.json of all seeds into one file, which keeps what it had before."""
    critics = {f"{label}-{reference}" for label, reference in product(("untrained", *LABELS), REFERENCES)}
    collect_critics(runs, critics, RESULTS / "critics.json")


def collect_critics(runs: str, critics: Collection[str], file: Path) -> None:
    """Put what `one` wrote of critics, RUNS/WORLD/seedN/CRITIC.json, into a file, which keeps what it had before."""
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    for path in sorted(Path(runs).glob("*/seed*/*.json")):
        if path.stem in critics:  # manifests lie beside them
            own = found.setdefault(path.parents[1].name, {}).setdefault(path.stem, {})
            own[path.parent.name] = json.loads(path.read_text())
    file.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def markdown(found: dict) -> str:
    """For each world and reference a row for each label: decisions and pairs of dialogues in %, mean score of kinds."""
    columns = [*DECISIONS, "success", "longer"]
    heads = [*DECISIONS, "dialogue that succeeds", "longer dialogue", *KINDS]
    parts = []
    for world, (reference, name) in product(sorted(found, reverse=True), REFERENCES.items()):
        lines = [f"{world} world, {name} reference", ""]
        lines.append("| trained on | seeds | " + " | ".join(heads) + " |")
        lines.append("| --- | ---: |" + " ---: |" * len(heads))
        for label in ("untrained", *LABELS):
            if own := list(found[world].get(f"{label}-{reference}", {}).values()):
                cells = [percent([seed[column] for seed in own if seed[column] is not None]) for column in columns]
                for kind in KINDS:
                    known = [seed[kind] for seed in own if kind in seed]
                    cells.append(f"{np.mean(known):+.4f}" if known else "")
                shown = LABELS.get(label, "nothing: the seed model")
                lines.append(f"| {shown} | {len(own)} | " + " | ".join(cells) + " |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def draw() -> None:
    """Write the table."""
    text = markdown(json.loads((RESULTS / "critics.json").read_text()))
    (RESULTS / "table.md").write_text(text)
    print(text)


if __name__ == "__main__":
    fire.Fire({"one": one, "collect": collect, "draw": draw})
