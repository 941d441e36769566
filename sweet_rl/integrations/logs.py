"""Dialogues out of the logs of verifiers and inspect_ai, as trajectories for every script of this package."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from sweet_rl.dialogues.play import trajectory_id
from sweet_rl.integrations.benchmark import DIALOGUE, TASK
from sweet_rl.runs.cli import to_settings
from sweet_rl.runs.errors import NothingMade, UserError, extras_named, first_line, read_by_library
from sweet_rl.runs.read_files import lines_of
from sweet_rl.runs.records import Trajectory, parse_row
from sweet_rl.runs.run import Run, open_run
from sweet_rl.runs.step import StepSettings, run_step


def import_dialogues(input_path: str, output_path: str, step: StepSettings) -> dict:
    """Write the dialogues of a log (`read_dialogues`) that have a reward.

    Returns:
        The summary: dialogues, without_reward (these are left out).
    """
    dialogues, failed = read_dialogues(input_path)
    if not dialogues:
        raise NothingMade(
            f"{input_path}: none of its {failed} dialogues has a reward: they failed or could not be graded. Run the "
            "evaluation again."
        )

    def write(run: Run) -> dict:
        run.write_missing(trajectory.to_dict() for trajectory in dialogues)
        return {"dialogues": len(dialogues), "without_reward": failed}

    def show(summary: dict) -> None:
        print(f"{output_path}: {summary['dialogues']} dialogues")
        if failed := summary["without_reward"]:
            print(f"{failed} dialogues have no reward and are left out; run the evaluation again for them.")

    return run_step(open_run(output_path, to_settings(), [input_path], step.overwrite), write, show)


def read_dialogues(path: str | Path) -> tuple[list[Trajectory], int]:
    """Read the dialogues in `traces.jsonl` of verifiers, or in an `.eval` or `.json` log of inspect_ai.

    The dialogues of a task are numbered anew in the order of the log if two have the same id (logs of several runs in
    one file).

    Returns:
        The dialogues that have a reward, and the number of those that have none: they failed, or could not be graded.

    Raises:
        UserError: there is no such file, it holds no dialogue of this package, or it needs inspect_ai.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"there is no log {path}: give traces.jsonl of verifiers, or a log of inspect_ai.")
    rows = list(_traces(path) if path.suffix == ".jsonl" else _samples(path))
    if not rows:
        raise UserError(f"{path} holds no dialogue. Was it written by the tasks of sweet_rl?")
    found = [Trajectory.from_dict(row, where) for where, row in rows if row is not None]
    if len({trajectory.id for trajectory in found}) < len(found):
        seen: Counter[str] = Counter()
        for number, trajectory in enumerate(found):
            found[number] = replace(trajectory, id=trajectory_id(trajectory.task, seen[trajectory.task.id]))
            seen[trajectory.task.id] += 1
    return found, len(rows) - len(found)


def _traces(path: Path) -> Iterator[tuple[str, Any]]:
    """(place, dialogue) of each episode of verifiers; None for one that is not `ok`, or whose agent's trace is not."""
    for number, line in enumerate(lines_of(path), start=1):
        where = f"{path}, line {number}"
        with _log_named(where):
            episode = parse_row(line, where)
            agent = next((trace for trace in episode.get("traces", []) if trace["agent"]["name"] == "agent"), None)
            good = all(one.get("ok", True) for one in (episode, agent or {}))
            if agent is None or not good:
                yield where, None
            else:
                yield where, agent["info"][DIALOGUE] | {"turn_credit": agent["info"].get("turn_credit")}


def _samples(path: Path) -> Iterator[tuple[str, Any]]:
    """(place, dialogue) of each sample of inspect_ai; the dialogue is None if it has an error or no score."""
    with extras_named():
        from inspect_ai.log import read_eval_log
    with _log_named(str(path)):
        samples = read_eval_log(str(path)).samples or ()
    for number, sample in enumerate(samples):
        where = f"{path}, sample {number}"
        with _log_named(where):
            score = (sample.scores or {}).get("grade")
            if sample.error is not None or score is None or not isinstance(score.value, dict):
                yield where, None
            else:
                metadata = {**(sample.metadata or {}), **(score.metadata or {})}
                row = {"task": metadata[TASK], "reward": score.value["reward"], "grade": metadata["grade"]}
                yield where, sample.store[DIALOGUE] | row


def _log_named(where: str) -> AbstractContextManager[None]:
    """Turn an error about the form of a log into a UserError that names its place."""
    return read_by_library(
        lambda error: UserError(
            f"{where}: not as the tasks of sweet_rl write it ({first_line(error)}). Is it their log?"
        )
    )
