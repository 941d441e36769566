"""Cost of a trained agent: the seconds of every step behind it, and the dialogues collected for it.

The manifest beside each output names its inputs; following them finds all steps behind a graded file. The seconds of
each step are in `times.jsonl`, by output; sweet_rl/pipeline/timed.py writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from sweet_rl.errors import UserError
from sweet_rl.pipeline.timed import first_successes, read_times
from sweet_rl.records import human_label
from sweet_rl.runs.manifest import read_manifest

TIMES = "times.jsonl"


def budget_points(comparison: Mapping) -> list[dict]:
    """Cost and success of each run of a comparison. Playing and grading the test tasks is not counted.

    Args:
        comparison: JSON written by compare_runs.py.

    Returns:
        {name, cpu_seconds, gpu_seconds, dialogues, mean, low, high} per run; costs are means over its seeds.

    Raises:
        UserError: there is no times.jsonl beside the runs or their inputs.
    """
    spent = seconds_by_output(find_times(path for paths in comparison["files"].values() for path in paths))
    points = []
    for run in comparison["runs"]:
        costs = [cost_of(path, spent) for path in comparison["files"][run["name"]]]
        means = {key: sum(cost[key] for cost in costs) / len(costs) for key in costs[0]}
        reached = {key: run[comparison["measure"]][key] for key in ("mean", "low", "high")}
        points.append({"name": run["name"], **means, **reached})
    return points


def cost_of(graded_path: str | Path, spent: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """{cpu_seconds, gpu_seconds, dialogues} of everything that the dialogues of a graded file were played with."""
    before = behind_dialogues(graded_path)
    total = {"cpu_seconds": 0.0, "gpu_seconds": 0.0, "dialogues": 0.0}
    for path in dict.fromkeys(before):
        for key, value in spent.get(_key(path), {}).items():
            total[key] += value
        total["dialogues"] += dialogues_in(path)
    return total


def behind_dialogues(graded_path: str | Path) -> list[str]:
    """All outputs that the dialogues of a graded file were played with, without these dialogues themselves."""
    (played, *_) = inputs_of(graded_path) or [graded_path]
    parts = inputs_of(played) if _is_gathered(played) else [played]
    return [path for part in parts for source in inputs_of(part) for path in behind(source)]


def behind(path: str | Path) -> list[str]:
    """The output itself and all outputs that it was made from, directly or not."""
    found: dict[str, None] = {}
    waiting = [_key(path)]
    while waiting:
        here = waiting.pop()
        if here not in found:
            found[here] = None
            waiting += map(_key, inputs_of(here))
    return list(found)


def inputs_of(path: str | Path) -> list[str]:
    """The inputs named in the manifest of an output (a file, or a model's folder)."""
    manifest = read_manifest(path)
    return list(manifest["inputs"]) if manifest else []


def dialogues_in(path: str | Path) -> int:
    """The number of dialogues that were collected into a file; 0 for anything else, also for a graded copy."""
    manifest = _collection(path)
    return int(manifest.get("summary", {}).get("dialogues", 0)) if manifest else 0


def human_of(path: str | Path) -> str | None:
    """The simulated human of the dialogues that were collected into a file; None for anything else."""
    manifest = _collection(path)
    return human_label(manifest["settings"].get("human")) if manifest else None


def seconds_by_output(times: Iterable[Path]) -> dict[str, dict[str, float]]:
    """{cpu_seconds, gpu_seconds} by output, summed over its `first_successes`. Raises as `read_times` does."""
    spent: dict[str, dict[str, float]] = {}
    for output, row in first_successes(read_times(times)):
        total = spent.setdefault(output, {"cpu_seconds": 0.0, "gpu_seconds": 0.0})
        for key in total:
            total[key] += row[key]
    return spent


def find_times(outputs: Iterable[str]) -> list[Path]:
    """The times.jsonl files beside the outputs and beside all their inputs. Raises UserError if there is none."""
    folders = {Path(made).parent: None for path in outputs for made in behind(path)}
    found: Sequence[Path] = [folder / TIMES for folder in folders if (folder / TIMES).is_file()]
    if not found:
        raise UserError(f"no {TIMES} is beside the runs or their inputs: the times of the steps are not known.")
    return list(found)


def _collection(path: str | Path) -> dict | None:
    """The manifest of a file into which dialogues were collected; None for anything else, also for a graded copy."""
    manifest = read_manifest(path)
    return manifest if manifest and {"agent_model", "env_model"} <= manifest["settings"].keys() else None


def _is_gathered(path: str | Path) -> bool:
    """Whether the inputs of an output are its shards."""
    manifest = read_manifest(path)
    return manifest is not None and "gathered" in manifest["settings"]


def _key(path: str | Path) -> str:
    return str(Path(path).resolve()) if str(path) else ""
