"""Comparison of graded runs on the same tasks: figures per run, and paired differences with p-values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sweet_rl.evaluation.graded_file import MAIN_MEASURE, GradedFile, check_comparable, read_graded
from sweet_rl.evaluation.paper import NOT_RECORDED, paper_results
from sweet_rl.evaluation.statistics import (
    DifferenceEstimate,
    Estimate,
    bootstrap_interval,
    holm,
    paired_difference,
    task_means,
    two_level_interval,
    two_level_p,
    win_share,
)
from sweet_rl.evaluation.table import as_latex, as_markdown, as_text
from sweet_rl.runs.cli import packaged_config
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.paths import check_paths, write_texts
from sweet_rl.runs.records import Trajectory

PAPER = packaged_config("paper/results.yaml")
Pair = tuple[str, str]
# Values by task of each measure: reward, main, turns, tokens.
Columns = Mapping[str, Mapping[str, list[float]]]


@dataclass(frozen=True)
class ComparisonSettings:
    """Which runs are compared, and where the table is written.

    Attributes:
        runs: Files of each run as name=file[+file...], separated by commas. A file without a name is named after
            itself. In a config file also {name: file or files}. Files may also stand before the flags.
        baselines: Names of runs that every run is compared with, task by task.
        chains: Names joined by >, each compared with the next, for example "SWEET-RL>DPO>zero-shot".
        paper: Table of the paper (table2, table3 or table4) whose figures are shown beside the runs of the same name,
            with a line that says what they were measured with, and one that says it of the runs.
        output_path: Output for the figures as JSON.
        markdown_path: Output for the tables in Markdown.
        latex_path: Output for the tables in LaTeX (booktabs).
        mix_humans: Compare also runs that were played with different simulated humans.
        settings: Note of the settings that the runs were trained with, for example a log of tries.
        seed: Random seed of the bootstrap.
        overwrite: Replace outputs that exist with other content.
    """

    runs: dict | str
    baselines: tuple[str, ...] = ()
    chains: tuple[str, ...] = ()
    paper: str | None = None
    output_path: str | None = None
    markdown_path: str | None = None
    latex_path: str | None = None
    mix_humans: bool = False
    settings: str | None = None
    seed: int = 0
    overwrite: bool = False


def compare_files(wanted: ComparisonSettings) -> dict[str, Any]:
    """Print each run's figures and the paired differences between runs, write them, and return what is written.

    Raises:
        UserError: Files that cannot be compared (with each other, with the paper), or another output that exists.
    """
    paths = parse_runs(wanted.runs)
    inputs = [path for files in paths.values() for path in files]
    check_paths([wanted.output_path, wanted.markdown_path, wanted.latex_path], inputs)
    paper = paper_results(PAPER, wanted.paper).get("rows") if wanted.paper else None
    chains = [[name.strip() for name in chain.split(">")] for chain in wanted.chains]
    graded = {name: [read_graded(path) for path in files] for name, files in paths.items()}
    comparison = compare(graded, list(wanted.baselines), chains, wanted.seed, wanted.mix_humans)
    comparison |= {"paper": paper, "files": paths, "seed": wanted.seed}
    if wanted.settings is not None:
        comparison["settings"] = wanted.settings
    text = as_text(comparison, paper)
    texts = {
        wanted.output_path: json.dumps(comparison, indent=2, ensure_ascii=False) + "\n",
        wanted.markdown_path: as_markdown(comparison, paper),
        wanted.latex_path: as_latex(comparison, paper),
    }
    write_texts({path: text for path, text in texts.items() if path is not None}, wanted.overwrite)
    print(text)
    return comparison


def parse_runs(runs: dict | str) -> dict[str, list[str]]:
    """Files by run name; sweet.graded.jsonl without a name is sweet.

    Raises:
        UserError: No run, one without files, a name given twice, or a file given twice.
    """
    if isinstance(runs, str):
        entries = []
        for item in runs.split(","):
            before, equals, after = item.partition("=")
            alone = Path(item).name.removesuffix(".jsonl").removesuffix(".graded")
            entries.append((before, after) if equals else (alone, item))
    else:
        entries = [(str(name), files if isinstance(files, str) else "+".join(files)) for name, files in runs.items()]
    parsed: dict[str, list[str]] = {}
    for given, text in entries:
        name, files = given.strip(), [file.strip() for file in text.split("+") if file.strip()]
        if not name or not files or name in parsed:
            raise UserError(f"--runs: expected name=file[+file...] with each name once, found {name!r}: {files}.")
        if len({Path(file).resolve() for file in files}) < len(files):
            raise UserError(f"--runs: the seeds of {name!r} are {files}: give each file once.")
        parsed[name] = files
    return parsed


def compare(
    runs: Mapping[str, Sequence[GradedFile]],
    baselines: Sequence[str] = (),
    chains: Sequence[Sequence[str]] = (),
    seed: int = 0,
    mix_humans: bool = False,
) -> dict[str, Any]:
    """Compare graded runs on the same tasks.

    Runs of several seeds have intervals and tests over seeds and tasks together (`two_level_interval`); the seeds of
    two runs are paired in their order. With one seed, or with different numbers of seeds, a difference is over tasks
    only. p-values are Holm-corrected, those of comparisons with baselines and those of the steps of chains apart.

    Args:
        runs: File of each seed, by name of the run.
        baselines: Names of runs that every other run is compared with.
        chains: Lists of names; each run is compared with the next of its list.
        seed: Seed of the bootstrap and of the tests.
        mix_humans: Whether runs with different simulated humans are compared.

    Returns:
        What compare_runs.py writes, and tables and figures read: `measure` (success, similarity or reward), `tasks`
        with a graded dialogue in every run, `left_out_tasks`, `grader`, `baselines`, `runs` and `steps`. An estimate is
        {mean, low, high, tasks}, of a difference with p. A run has an estimate under the name of the measure, with
        MEASURE_by_seed and MEASURE_spread (the standard deviation over seeds), for code also tests_passed; the number
        of `dialogues`, of `failed` ones, which are in no figure, and mean `turns` and `tokens` of the agent;
        `difference_to` and `wins_against` by baseline. A step is a difference of neighbours in a chain.

    Raises:
        UserError: Runs that are not comparable (tasks, graders, humans), a name that is none of them, nothing graded.
    """
    for name in (*baselines, *(name for chain in chains for name in chain)):
        if name not in runs:
            raise UserError(f"{name!r} is none of the runs: {', '.join(runs)}.")
    grader = check_comparable(runs, mix_humans)
    measure = MAIN_MEASURE.get(grader.get("kind", ""), "success")
    files = [file for seeds in runs.values() for file in seeds]
    tasks = {t.task.id for file in files for t in file.trajectories}
    counted = tasks.intersection(*({t.task.id for t in file.trajectories if t.is_graded} for file in files))
    if not counted:
        raise UserError("No task has a graded dialogue in every run: were the files made by evaluate_code.py?")
    values = {name: [_columns(file.trajectories, counted, measure) for file in seeds] for name, seeds in runs.items()}

    def corrected_together(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
        found = [_difference(run, other, values[run], values[other], seed) for run, other in pairs]
        for one, p in zip(found, holm([one["difference"]["p"] for one in found]), strict=True):
            one |= {"p_holm": p, "significant": _significant(one, p)}
        return found

    against = corrected_together([(name, baseline) for baseline in baselines for name in runs if name != baseline])
    steps = corrected_together([pair for chain in chains for pair in zip(chain, chain[1:], strict=False)])
    rows = [_figures(name, values[name], seeds, measure, seed) for name, seeds in runs.items()]
    for row in rows:
        own = [one for one in against if one["better"] == row["name"]]
        row["difference_to"] = {
            one["worse"]: one["difference"] | {"p_holm": one["p_holm"], "seeds": one["seeds"]} for one in own
        }
        row["wins_against"] = {one["worse"]: one["wins"] for one in own}
    return {
        "measure": measure,
        "tasks": len(counted),
        "left_out_tasks": sorted(tasks - counted),
        "grader": grader,
        "baselines": list(baselines),
        "runs": rows,
        "steps": steps,
    }


def _figures(
    name: str, seeds: Sequence[Columns], files: Sequence[GradedFile], measure: str, seed: int
) -> dict[str, Any]:
    """The figures of a run by itself."""
    main = _matrix(seeds, "main")
    tokens = [task_means(columns["tokens"]) for columns in seeds]
    dialogues = [trajectory for file in files for trajectory in file.trajectories]
    figures = {
        "name": name,
        "seeds": len(seeds),
        "humans": sorted({label for one in dialogues if (label := one.human_label) is not None}),
        "protocols": sorted({one.protocol or NOT_RECORDED for one in dialogues}),
        measure: _interval(main, seed).to_dict(),
        f"{measure}_by_seed": main.mean(1).tolist(),
        f"{measure}_spread": float(np.std(main.mean(1), ddof=1)) if len(seeds) > 1 else None,
        "dialogues": len(dialogues),
        "failed": sum(trajectory.ending == "failed" for trajectory in dialogues),
        "turns": float(_matrix(seeds, "turns").mean()),
        "tokens": float(np.mean([np.mean(list(t.values())) for t in tokens])) if all(tokens) else None,
    }
    if measure == "success":
        tests = _matrix(seeds, "reward")
        figures |= {"tests_passed": _interval(tests, seed).to_dict(), "tests_passed_by_seed": tests.mean(1).tolist()}
    return figures


def _difference(
    run: str, other: str, run_seeds: Sequence[Columns], other_seeds: Sequence[Columns], seed: int
) -> dict[str, Any]:
    """Run `run` minus run `other`, paired by task and, if both have the same number of seeds, by seed.

    `seeds` is the number of seeds that interval and test are over; 1 if they are over tasks only. `wins` is the share
    of pairs of dialogues of the same task in which `run` earns more; ties count half. `p_tasks` is the p-value of the
    sign-flip test over tasks, which does not cover another training. `better` names `run`, even if it is worse.
    """
    a, b = _matrix(run_seeds, "main"), _matrix(other_seeds, "main")
    wins = _wins(run_seeds, other_seeds)
    over_tasks = paired_difference(dict(enumerate(a.mean(0))), dict(enumerate(b.mean(0))), seed)
    if len(a) != len(b) or len(a) == 1 or a.shape[1] == 1:
        seeds, difference, wins = 1, over_tasks, wins.mean(0, keepdims=True)
    else:
        interval = _interval(a - b, seed, lowest=-1.0)
        seeds, difference = len(a), DifferenceEstimate(**asdict(interval), p=two_level_p(a - b))
    return {
        "better": run,
        "worse": other,
        "seeds": seeds,
        "difference": difference.to_dict(),
        "wins": _interval(wins, seed).to_dict(),
        "p_tasks": over_tasks.p,
    }


def _significant(difference: Mapping[str, Any], p_holm: float) -> str:
    """yes, "the reverse" or no at 5 %; "too few seeds": significant over tasks only, may be luck of the seeds."""
    if p_holm < 0.05:
        return "yes" if difference["difference"]["mean"] > 0 else "the reverse"
    return "too few seeds" if difference["seeds"] > 1 and difference["p_tasks"] < 0.05 else "no"


def _interval(values: np.ndarray, seed: int, lowest: float = 0.0) -> Estimate:
    """The interval of values [S, T] from `lowest` to 1: over tasks if there is one seed, else over seeds and tasks."""
    if len(values) > 1:
        return two_level_interval(values, seed, lowest)
    return bootstrap_interval(dict(enumerate(values[0])), seed, lowest)


def _matrix(seeds: Sequence[Columns], name: str) -> np.ndarray:
    """[S, T]: for each seed and task the mean over its dialogues. Tasks are in sorted order."""
    means = [task_means(columns[name]) for columns in seeds]
    return np.array([[mean[task] for task in sorted(mean)] for mean in means], dtype=np.float64)


def _wins(one: Sequence[Columns], other: Sequence[Columns]) -> np.ndarray:
    """[S, T]: the share of wins of each seed on each task; [1, T] over all dialogues if the seeds are not paired."""
    if len(one) != len(other):
        one, other = [_joined(one)], [_joined(other)]
    pairs = [(a["reward"], b["reward"]) for a, b in zip(one, other, strict=True)]
    return np.array([[win_share(a[task], b[task]) for task in sorted(a)] for a, b in pairs])


def _joined(seeds: Sequence[Columns]) -> Columns:
    return {"reward": {task: sum((seed["reward"][task] for seed in seeds), []) for task in seeds[0]["reward"]}}


def _columns(trajectories: Sequence[Trajectory], tasks: set[str], measure: str) -> Columns:
    """For each measure the values of each task's dialogues; `tokens` only of dialogues that hold their usage."""
    found: dict[str, dict[str, list[float]]] = {name: {} for name in ("reward", "main", "turns", "tokens")}
    for trajectory in trajectories:
        task = trajectory.task.id
        if task not in tasks or not trajectory.is_graded:
            continue
        main = float(trajectory.reward == 1.0) if measure == "success" else trajectory.reward
        tokens = (trajectory.usage or {}).get("agent", {}).get("completion_tokens")
        values = {"reward": trajectory.reward, "main": main, "turns": trajectory.turns, "tokens": tokens}
        for name, value in values.items():
            if value is not None:
                found[name].setdefault(task, []).append(float(value))
    return found
