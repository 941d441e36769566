"""Success and cost of the policies of run.sh, and the differences that were declared.

python -m lab.costs.tables collect --runs runs/costs    # into results/cells.json, which keeps what it had before
python -m lab.costs.tables draw                         # results/table.md of that file
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

import fire
import numpy as np

from lab.outcomes import LAB, crossed, shown, summary
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.records import Trajectory, TurnCandidates, read_records

RESULTS = LAB / "costs/results"
ORDER = [(agent, draw) for draw in (201, 202, 1) for agent in (0, 1)] + [(2, draw) for draw in (201, 202, 1)]
PRICES = (0, 1, 9)
NAMES = {
    "zero_shot": "zero-shot",
    "rft": "rejection fine-tuning, 200 dialogues",
    "rft_more": "rejection fine-tuning, 1,600 dialogues",
    "dpo": "multi-turn DPO, 200 dialogues",
    "dpo_more": "multi-turn DPO, 1,600 dialogues",
    "sweet-gap": "SWEET-RL, pairs by a gap",
    "sweet-halves": "SWEET-RL, pairs by halves",
    "pmi-gap": "PMI, pairs by a gap",
    "pmi-halves": "PMI, pairs by halves",
    "own": "PMI, pairs by a gap, then its own successes",
    "then": "PMI, pairs by halves, then its own successes",
    "again": "rejection fine-tuning, 200 dialogues, then its own successes",
}
ADDED = {"dpo_more", "again", "sweet-halves", "pmi-halves", "then"}  # not in all cells
SAMPLED = {  # files, by policy
    "zero_shot": (),
    "rft": ("few",),
    "rft_more": ("many",),
    "dpo": ("few",),
    "dpo_more": ("many",),
    "sweet-gap": ("few", "candidates"),
    "sweet-halves": ("few", "candidates"),
    "pmi-gap": ("few", "candidates"),
    "pmi-halves": ("few", "candidates"),
    "own": ("few", "candidates", "own"),
    "then": ("few", "candidates", "then"),
    "again": ("few", "again"),
}
BASELINES = {"rft_more": "rft", "dpo_more": "dpo"}  # with 1,600 dialogues and with 200
Cell = dict[str, dict[str, float]]  # policy: success in %, sampled tokens of the agent, tokens of the human
Cells = Mapping[tuple[int, int], Cell]  # by agent and draw


def tokens_of(path: Path, count: Callable[[str], int]) -> tuple[int, int]:
    """Tokens that the agent sampled in a file of dialogues or candidates, and those that the human said in it."""
    if path.name == "candidates.jsonl":
        rows = read_records(str(path), TurnCandidates)
        return sum(count(text) + 1 for row in rows for text in row.additional_outputs), 0
    said = {"assistant": 0, "user": 0}
    for dialogue in read_records(str(path), Trajectory):
        for message in dialogue.dialogue_history[1:]:  # the first message is the task
            said[message["role"]] += count(message["content"]) + 1
    return said["assistant"], said["user"]


def collect(runs: str) -> None:
    """Put the cells of a folder of runs into the study's file."""
    file = RESULTS / "cells.json"
    found = json.loads(file.read_text()) if file.exists() else {}
    encode = ChatFormat.from_pretrained("mini_hard").tokenizer.encode

    @cache
    def count(text: str) -> int:
        return len(encode(text, add_special_tokens=False))

    for folder in sorted(Path(runs).glob("agent*-draw*/seed0")):
        files = {name: folder / f"{name}.jsonl" for name in ("few", "many", "candidates", "own", "then", "again")}
        sampled = {name: tokens_of(file, count) for name, file in files.items() if file.exists()}
        own = found.setdefault(folder.parent.name, {})
        for policy in NAMES:
            for graded in folder.glob(f"{policy}*.test.graded.jsonl"):
                if re.fullmatch(rf"{policy}(-\d+)?\.test\.graded\.jsonl", graded.name) is None:
                    continue  # another policy whose name begins with this one's
                rewards = [one.reward == 1.0 for one in read_records(str(graded), Trajectory)]
                parts = [sampled[name] for name in SAMPLED[policy]]
                agent, human = (sum(part[at] for part in parts) for at in (0, 1))
                own[policy] = {"success": 100 * float(np.mean(rewards)), "agent": agent, "human": human}
    file.write_text(json.dumps(found, indent=1) + "\n")


def cells() -> dict[tuple[int, int], Cell]:
    """The complete cells of the study's file, in the declared order; some may lack those of ADDED."""
    found = json.loads((RESULTS / "cells.json").read_text())
    named = {cell: found.get(f"agent{cell[0]}-draw{cell[1]}", {}) for cell in ORDER}
    return {cell: own for cell, own in named.items() if own.keys() >= NAMES.keys() - ADDED}


def cost(policy: Mapping[str, float], price: float) -> float:
    """Tokens of the agent, and price times those of the human."""
    return policy["agent"] + price * policy["human"]


def at_equal_cost(cell: Cell, more: str, price: float, policy: str = "pmi-gap") -> float:
    """Success in % of a baseline at the cost of a policy: on the line between its sizes, in the logarithm of cost."""
    ends = [cell[BASELINES[more]], cell[more]]
    costs = [np.log(cost(end, price)) for end in ends]
    return float(np.interp(np.log(cost(cell[policy], price)), costs, [end["success"] for end in ends]))


def interval(gaps: Mapping[tuple[int, int], float]) -> dict[str, float]:
    """Mean and 95 % interval: of the crossed design with nine cells, else t over the cells."""
    return crossed(gaps) if len(gaps) == len(ORDER) else summary(list(gaps.values()))


def better_baseline(found: Cells, price: float) -> str:
    """The baseline with the higher mean at the cost of pmi-gap, over the cells that have both."""
    both = [cell for cell in found.values() if cell.keys() >= BASELINES.keys()]
    return max(BASELINES, key=lambda more: _mean(at_equal_cost(cell, more, price) for cell in both))


def differences(found: Cells) -> list[tuple[str, dict[tuple[int, int], float]]]:
    """The differences in points, declared or added, by cell."""
    rows = []
    for price in (1, 0, 9):
        better = better_baseline(found, price)
        pairs = [(policy, "rft_more") for policy in ("pmi-halves", "then")]  # not declared
        pairs += [(policy, more) for more in (better, *BASELINES.keys() - {better}) for policy in ("pmi-gap", "own")]
        for policy, more in pairs:
            name = {"pmi-gap": "PMI", "own": "own successes afterwards"}.get(policy, NAMES[policy])
            known = {key: cell for key, cell in found.items() if cell.keys() >= {policy, more}}
            gaps = {
                key: cell[policy]["success"] - at_equal_cost(cell, more, price, policy) for key, cell in known.items()
            }
            rows.append((f"{name} - {NAMES[more].split(',')[0]} at equal cost, price {price}", gaps))
    for name, one, other in (
        ("PMI - SWEET-RL, both by a gap", "pmi-gap", "sweet-gap"),
        ("own successes afterwards - PMI", "own", "pmi-gap"),
        ("SWEET-RL - multi-turn DPO, 200 dialogues", "sweet-gap", "dpo"),
        ("SWEET-RL by halves - multi-turn DPO, 200 dialogues", "sweet-halves", "dpo"),
        ("SWEET-RL by halves - by a gap", "sweet-halves", "sweet-gap"),
        ("PMI - multi-turn DPO, 200 dialogues", "pmi-gap", "dpo"),
        ("PMI by halves - multi-turn DPO, 200 dialogues", "pmi-halves", "dpo"),
        ("PMI by halves - by a gap", "pmi-halves", "pmi-gap"),
        ("PMI by halves - SWEET-RL by halves", "pmi-halves", "sweet-halves"),
        ("own successes after PMI by halves - PMI by halves", "then", "pmi-halves"),
        ("PMI - multi-turn DPO, 1,600 dialogues", "pmi-gap", "dpo_more"),
        ("PMI - rejection fine-tuning, 1,600 dialogues", "pmi-gap", "rft_more"),
        ("own successes afterwards - rejection fine-tuning, 1,600 dialogues", "own", "rft_more"),
        ("own successes after PMI - after rejection fine-tuning", "own", "again"),
    ):  # fmt: skip
        both = {key: cell for key, cell in found.items() if cell.keys() >= {one, other}}
        rows.append((name, {key: cell[one]["success"] - cell[other]["success"] for key, cell in both.items()}))
    return rows


def markdown(found: Cells) -> str:
    """Success by cell, costs in thousands of tokens, and the differences."""
    heads = [f"agent {agent}, draw {draw}" for agent, draw in found]
    costs = [f"cost at {price}" for price in PRICES]
    lines = [f"| success %, cost in 1,000 tokens | {' | '.join([*heads, 'mean', *costs])} |"]
    lines.append("| --- |" + " ---: |" * (len(heads) + 1 + len(costs)))
    for policy, name in NAMES.items():
        own = [cell[policy] for cell in found.values() if policy in cell]
        row = [f"{cell[policy]['success']:.1f}" if policy in cell else "" for cell in found.values()]
        row.append(f"{_mean(one['success'] for one in own):.1f}")
        row += [f"{_mean(cost(one, price) for one in own) / 1000:,.0f}" for price in PRICES]
        lines.append(f"| {name} | " + " | ".join(row) + " |")
    lines += ["", "| difference | points | cells above 0 |", "| --- | ---: | ---: |"]
    for name, gaps in differences(found):
        above = sum(gap > 0 for gap in gaps.values())
        lines.append(f"| {name} | {shown(interval(gaps))} | {above} of {len(gaps)} |")
    return "\n".join(lines) + "\n"


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def draw() -> None:
    """Write the table."""
    (RESULTS / "table.md").write_text(markdown(cells()))
    print(markdown(cells()))


if __name__ == "__main__":
    fire.Fire({"collect": collect, "draw": draw})
