"""The log of the settings tried for each method, and the choice among them by validation tasks alone."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sweet_rl.errors import UserError
from sweet_rl.evaluation.budget import seconds_by_output
from sweet_rl.evaluation.comparison import compare
from sweet_rl.evaluation.comparison_table import Table
from sweet_rl.evaluation.graded_file import read_graded
from sweet_rl.evaluation.statistics import Estimate, interval_text
from sweet_rl.pipeline.ledger import steps_behind
from sweet_rl.pipeline.plan import Step
from sweet_rl.pipeline.timed import read_times
from sweet_rl.pipeline.tries import Settings
from sweet_rl.records import Task, read_records
from sweet_rl.runs.texts import write_texts


@dataclass(frozen=True)
class Try:
    """Settings of a method, and what came of them.

    Attributes:
        method: its name.
        number: of the try, from 1.
        settings: {step: {flag: value}}.
        graded: the graded dialogues on the validation tasks, one file per seed.
        status: finished, failed (a step of it ended with an error), or open: not run yet, or killed.
        cpu_seconds: of all steps behind it, shared ones included, over all seeds.
        result: the main measure with its interval; None unless finished.
        by_seed: the main measure of each seed.
        chosen: whether the method takes these settings.
    """

    method: str
    number: int
    settings: Settings
    graded: tuple[str, ...]
    status: str = "open"
    cpu_seconds: float = 0.0
    result: Estimate | None = None
    by_seed: tuple[float, ...] = ()
    chosen: bool = False

    def to_dict(self) -> dict:
        found = {"number": self.number, "settings": self.settings, "status": self.status, "chosen": self.chosen}
        found |= {"result": self.result and self.result.to_dict(), "by_seed": list(self.by_seed)}
        return found | {"cpu_seconds": round(self.cpu_seconds, 1)}


def write_log(path: str, tries: Sequence[Try], makers: Mapping[str, Step], tasks: Mapping[str, str]) -> None:
    """Choose a try of each method and write all tries to `path`.json and `path`.md.

    Args:
        path: without its ending; replaced if it exists.
        tries: of equally good ones of a method the first is chosen.
        makers: steps by what they make.
        tasks: files of tasks by name: those of the tables, and those that the tries are trained and evaluated on.

    Raises:
        UserError: a try is open, or two files of tasks share a solution. Nothing is written.
    """
    check_disjoint(tasks)
    tries = [with_outcome(one, makers) for one in tries]
    if left := [f"{one.method} {one.number}" for one in tries if one.status == "open"]:
        raise UserError(f"no settings are chosen before these tries have ended: {', '.join(left)}. Run them first.")
    done = [one for one in tries if one.status == "finished"]
    measure, evaluated = "success", 0
    if done:
        comparison = compare({f"{one.method} {one.number}": [read_graded(p) for p in one.graded] for one in done})
        measure, evaluated = comparison.measure, comparison.tasks
        rows = {row.name: row for row in comparison.rows}
        for place, one in enumerate(tries):
            if row := rows.get(f"{one.method} {one.number}"):
                tries[place] = replace(one, result=row.main, by_seed=tuple(row.by_seed))
    tries = choose(tries)
    log = {"measure": measure, "validation_tasks": evaluated, "seeds": len(tries[0].graded), "methods": {}}
    for one in tries:
        log["methods"].setdefault(one.method, {"tries": []})["tries"].append(one.to_dict())
    texts = {f"{path}.json": json.dumps(log, indent=2, ensure_ascii=False) + "\n"}
    write_texts(texts | {f"{path}.md": as_markdown(tries, measure, evaluated)}, overwrite=True)


def check_disjoint(tasks: Mapping[str, str]) -> None:
    """Raise UserError naming two files of tasks (by name) that have a reference solution in common."""
    solutions = {name: {task.ground_truth for task in read_records(path, Task)} for name, path in tasks.items()}
    names = list(solutions)
    for place, one in enumerate(names):
        for other in names[place + 1 :]:
            if count := len(solutions[one] & solutions[other]):
                raise UserError(f"{tasks[one]} ({one}) and {tasks[other]} ({other}) share {count} tasks.")


def with_outcome(one: Try, makers: Mapping[str, Step]) -> Try:
    """The try with its status and CPU seconds, from the times.jsonl of its steps.

    A step that a signal ended (status 128 or more) did not fail: it may have been killed by hand.
    """
    steps = {step.output: step for path in one.graded for step in steps_behind(makers[path], makers)}
    times = [path for path in {Path(step.times) for step in steps.values()} if path.is_file()]
    spent = seconds_by_output(times)
    cpu = sum(spent.get(str(Path(output).resolve()), {}).get("cpu_seconds", 0.0) for output in steps)
    if all(makers[path].finished() for path in one.graded):
        return replace(one, status="finished", cpu_seconds=cpu)
    ended = {(row["output"], row["command"]): row["status"] for row in read_times(times)}
    failed = any(0 < ended.get((step.output, shlex.join(step.words)), 0) < 128 for step in steps.values())
    return replace(one, status="failed" if failed else "open", cpu_seconds=cpu)


def choose(tries: Iterable[Try]) -> list[Try]:
    """The tries, of each method the best one chosen: the first of those with the highest result; none if all failed."""
    best: dict[str, Try] = {}
    for one in tries:
        if one.result and (one.method not in best or one.result.mean > best[one.method].result.mean + 1e-9):
            best[one.method] = one
    return [replace(one, chosen=best.get(one.method) == one) for one in tries]


def as_markdown(tries: Sequence[Try], measure: str, tasks: int) -> str:
    """A row per try; of the settings after a method's first those that differ from it."""
    cells = [["method", "try", f"{measure} %", "95 % interval", "CPU minutes", "settings", "chosen"]]
    firsts: dict[str, dict[str, object]] = {}
    for one in tries:
        flags = {f"{step}.{flag}": value for step, own in one.settings.items() for flag, value in own.items()}
        first = firsts.setdefault(one.method, flags)
        shown = {flag: value for flag, value in flags.items() if one.number == 1 or value != first[flag]}
        result = one.result
        cells.append(
            [
                *(one.method, str(one.number)),
                f"{100 * result.mean:.1f}" if result else one.status,
                interval_text(result.low, result.high) if result else "",
                f"{one.cpu_seconds / 60:.1f}",
                ("" if one.number == 1 else "as 1, ") + ", ".join(f"{flag} {value}" for flag, value in shown.items()),
                "yes" if one.chosen else "",
            ]
        )
    count, seeds = max(one.number for one in tries), len(tries[0].graded)
    text = f"Settings of every method: {count}; seeds of each: {seeds}; {tasks} validation tasks, which no table uses. "
    text += "CPU minutes: of all steps behind a try; tries share some of them."
    return f"{Table(cells, 4).markdown()}\n\n{text}\n"
