"""The tables of lab/ciphered/results from the cells of run.sh.

python -m lab.ciphered.tables collect --runs runs/ciphered    # figures of all cells into results/*.json.gz
python -m lab.ciphered.tables draw                            # two tables of these
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import fire
import numpy as np

from lab.outcomes import percent, shown, summary
from sweet_rl.runs.records import Trajectory, read_records

RESULTS = Path(__file__).parent / "results"
CELLS = RESULTS / "cells.json.gz"
POLICIES = RESULTS / "policies.json.gz"
RATE = "1e-3"  # of policies whose name says nothing else
CELL = re.compile(r"cipher(\d+)-seed(\d+)-(\w+)-(\d+)")
CRITICS = {
    "untrained": "untrained (PMI)",
    "equation2": "equation 2 (the paper)",
    "shuffled": "equation 2, c shuffled",
    "branch": "branching pairs",
    "centred": "centred credit",
    "kl": "equation 2 + KL",
    "imitation": "equation 2 + imitation of both",
}
IDENTIFIED = "revealing_clue"  # the replies of the study of policies
PENALISED = re.compile(r"beta([\d.]+)-kl([\d.]+)")  # a critic of that study
Cells = list[dict[str, Any]]


def collect(runs: str = "runs/ciphered") -> None:
    """Put all measured critics and policies into two files, with the pairs of each task; earlier ones stay there."""
    cells = {_key(cell): cell for cell in _read(CELLS)}
    for path in sorted(Path(runs).glob("cipher*/*.json")):
        place, found = CELL.fullmatch(path.parent.name), json.loads(path.read_text())
        if place and (path.stem in CRITICS or PENALISED.fullmatch(path.stem)) and "turn_pairs" in found:
            cipher, seed, replies, tasks = place.groups()
            where = {"cipher": int(cipher), "seed": int(seed), "replies": replies, "tasks": int(tasks)}
            cell = where | {"critic": path.stem} | found
            cells[_key(cell)] = cell
    policies = {_key(policy): policy for policy in _read(POLICIES)}
    for path in sorted(Path(runs).glob("cipher*-*/policy/*-*.graded.jsonl")):
        place = CELL.fullmatch(path.parents[1].name)
        assert place is not None
        outcomes: dict[str, list[int]] = defaultdict(list)
        for dialogue in read_records(str(path), Trajectory):
            outcomes[dialogue.task.id].append(int(dialogue.reward or 0))
        where = {"cipher": int(place[1]), "seed": int(place[2]), "replies": place[3]}
        policy = where | {
            "policy": path.name.removesuffix(".graded.jsonl").removesuffix(f"-{RATE}"),
            "outcomes": outcomes,
        }
        policies[_key(policy)] = policy
    for file, found in ((CELLS, cells), (POLICIES, policies)):
        ordered = [found[key] for key in sorted(found)]
        file.write_bytes(gzip.compress(json.dumps(ordered, separators=(",", ":")).encode(), mtime=0))
        print(f"{len(found)} in {file}")


def _key(row: dict[str, Any]) -> tuple[str, ...]:
    names = ("replies", "tasks", "cipher", "seed", "critic", "policy")
    return tuple(str(row.get(name, "")) for name in names)


def _read(file: Path) -> Cells:
    return json.loads(gzip.decompress(file.read_bytes()))


def draw() -> None:
    """Write the tables."""
    pages = {"critics": markdown(_read(CELLS)), "policies": policy_table(_read(POLICIES))}
    for name, table in pages.items():
        (RESULTS / f"{name}.md").write_text(table)
    print(*pages.values(), sep="\n")


def policy_table(policies: Cells) -> str:
    """Success of each policy in percent over the two dialogues of each held-out task: by cell, and its mean over cells;
    and what it is above random pairs by gap in the same cells."""
    found: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for one in _cells(policies):
        found[one["replies"], one["policy"]][one["seed"]] = 100 * float(np.mean(list(one["outcomes"].values())))
    lines = [
        "| replies | policy | cells | success % | by cell | minus random-gap |",
        "| --- | --- | ---: | ---: | --- | ---: |",
    ]
    for (replies, name), cells in sorted(
        found.items(), key=lambda one: (one[0][0], float(np.mean(list(one[1].values()))))
    ):
        random = found.get((replies, "random-gap"), {})
        above = [value - random[cell] for cell, value in cells.items() if cell in random and name != "random-gap"]
        by_cell = ", ".join(f"{cells[cell]:.1f}" for cell in sorted(cells))
        lines.append(
            f"| {replies} | {name} | {len(cells)} | {percent(list(cells.values()))} | {by_cell} | {_points(above)} |"
        )
    return "\n".join(lines) + "\n"


def _cells(rows: Cells) -> Cells:
    """Without the pilot's."""
    return [row for row in rows if row["cipher"] or row["replies"] != IDENTIFIED]


def _points(gaps: list[float]) -> str:
    """The mean of differences, from three on with its 95 % t interval."""
    if not gaps:
        return ""
    found = summary(gaps)
    return shown(found if len(gaps) > 2 else {"mean": found["mean"]})


def by_critic(cells: Cells, measure: str) -> dict[tuple[str, str, int], list[float]]:
    """The values of `measure` of each (replies, critic, number of tasks), one a cell."""
    found: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for cell in cells:
        found[cell["replies"], cell["critic"], cell["tasks"]].append(cell[measure])
    return found


def markdown(cells: Cells) -> str:
    """A row for each critic, kind of replies and number of dialogues."""
    measures = [by_critic(_cells(cells), name) for name in ("turns", "dialogues", "last_turn_if_1", "last_turn_if_0")]
    lines = ["| replies | critic | dialogues | cells | turns % | dialogues % | last turn of a success | of a failure |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    order = list(CRITICS)
    places = {
        key: (key[0], key[2], order.index(key[1]) if key[1] in order else len(order), key[1]) for key in measures[0]
    }
    for key in sorted(measures[0], key=places.__getitem__):
        replies, critic, tasks = key
        turns, dialogues, success, failure = (measure[key] for measure in measures)
        figures = [percent(turns), percent(dialogues), f"{np.mean(success):+.2f}", f"{np.mean(failure):+.2f}"]
        setting = PENALISED.fullmatch(critic)
        name = f"equation 2, beta {setting[1]}, KL {setting[2]}" if setting else CRITICS[critic]
        lines.append(f"| {replies} | {name} | {8 * tasks:,} | {len(turns)} | " + " | ".join(figures) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    fire.Fire({"collect": collect, "draw": draw})
