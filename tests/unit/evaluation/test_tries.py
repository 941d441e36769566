"""The log of tries: what was tried, what came of it, and the choice by validation tasks alone."""

import dataclasses
import json
import re
import shlex
from pathlib import Path

import pytest

from sweet_rl.errors import UserError
from sweet_rl.evaluation.statistics import Estimate
from sweet_rl.evaluation.tries import Try, as_markdown, check_disjoint, choose, with_outcome, write_log
from sweet_rl.mini.tasks import make_tasks
from sweet_rl.pipeline.plan import Step
from sweet_rl.pipeline.tries import chosen_settings
from sweet_rl.records import Task, Trajectory
from tests.support.command_line import read_rows, write_rows

TASKS = [Task(f"task {i}", f"def f(): return {i}", {"test1": "f()"}, id=f"t{i}") for i in range(10)]
HISTORY = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "x"}]


class Runs:
    """Trainings and evaluations below a folder, as the workflow leaves them; all share the step `pairs`."""

    def __init__(self, folder: Path):
        self.folder, self.times, self.makers = folder, folder / "times.jsonl", {}
        self.pairs = self.step("pairs.jsonl", (), 1, 0)

    def step(self, name: str, sources: tuple[str, ...], cpu: float, *statuses: int) -> str:
        """A step and a row of times for each status."""
        path = str(self.folder / name)
        words = ("make", "--output_path", path)
        self.makers[path] = Step(name, "other", words, (path,), sources, str(self.times))
        row = {"step": name, "output": path, "seconds": cpu, "user_seconds": cpu, "system_seconds": 0.0, "gpus": 0}
        if statuses[-1:] == (0,):
            (self.folder / name).touch()
        with open(self.times, "a") as file:
            for status in statuses:
                file.write(json.dumps(row | {"status": status, "command": shlex.join(words)}) + "\n")
        return path

    def graded(self, name: str, successes: int, *statuses: int) -> str:
        """An agent that solves so many of the ten tasks; its training ended with these statuses."""
        agent = self.step(name, (self.pairs,), 10, *statuses)
        ended = (0,) if statuses[-1:] == (0,) else ()
        path = self.step(f"{name}.graded.jsonl", (agent,), 5, *ended)
        if ended:
            rows = [Trajectory(task, HISTORY, "x", float(i < successes), id=f"{task.id}-0", ending="answered")
                    for i, task in enumerate(TASKS)]  # fmt: skip
            write_rows(Path(path), [row.to_dict() for row in rows])
        return path


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path)


@pytest.fixture
def tasks(tmp_path):
    """Files of the tables' tasks, and those of the tries."""
    found = {"tasks/test": make_tasks(5, seed=1), "tasks_settings/test": make_tasks(5, seed=2)}
    for name, rows in found.items():
        (tmp_path / name).parent.mkdir()
        write_rows(tmp_path / f"{name}.jsonl", rows)
    return {name: str(tmp_path / f"{name}.jsonl") for name in found}


def one_try(method, number, *graded, **settings):
    return Try(method, number, {method.lower(): settings or {"beta": number}}, graded)


def test_the_best_on_validation_is_chosen_for_each_method_and_every_try_is_logged(runs, tasks, tmp_path):
    tries = [
        one_try("DPO", 1, runs.graded("a", 3, 0)),
        one_try("DPO", 2, runs.graded("b", 7, 0)),
        one_try("SFT", 1, runs.graded("c", 6, 0)),
        one_try("SFT", 2, runs.graded("d", 0, 2)),
    ]
    write_log(str(tmp_path / "results" / "settings"), tries, runs.makers, tasks)
    log = json.loads((tmp_path / "results" / "settings.json").read_text())
    found = {(m, t["number"]): t for m, method in log["methods"].items() for t in method["tries"]}
    assert {key for key, one in found.items() if one["chosen"]} == {("DPO", 2), ("SFT", 1)}
    assert [one["status"] for one in found.values()] == ["finished", "finished", "finished", "failed"]
    assert found["DPO", 2]["by_seed"] == [0.7] and found["DPO", 2]["result"]["tasks"] == 10
    assert found["SFT", 2]["result"] is None
    # pairs 1, training 10, evaluation 5; the failed training was not evaluated
    assert [one["cpu_seconds"] for one in found.values()] == [16.0, 16.0, 16.0, 11.0]
    assert log["validation_tasks"] == 10 and log["seeds"] == 1
    assert chosen_settings(tmp_path / "results" / "settings.json") == {"dpo": {"beta": 2}, "sft": {"beta": 1}}
    table = (tmp_path / "results" / "settings.md").read_text()
    assert re.search(r"^\| DPO \| 2 \| 70.0 \| .* to .* \| 0.3 \| as 1, dpo.beta 2 \| yes \|$", table, re.MULTILINE)
    assert "| SFT | 2 | failed |  | 0.2 | as 1, sft.beta 2 |  |" in table
    assert "\n| --- | ---: | ---: | ---: | ---: | --- | --- |\n" in table


def test_of_a_later_try_only_the_settings_that_differ_from_the_first_are_in_the_table():
    tries = [with_result("DPO", 1, 0.5, beta=0.1, epochs=2), with_result("DPO", 2, 0.6, beta=0.3, epochs=2)]
    table = as_markdown(tries, "success", 10)
    assert "| dpo.beta 0.1, dpo.epochs 2 |" in table and "| as 1, dpo.beta 0.3 |" in table


def test_a_try_of_several_seeds_counts_by_their_mean(runs, tasks, tmp_path):
    steady = runs.graded("a", 6, 0), runs.graded("b", 6, 0)
    lucky = runs.graded("c", 9, 0), runs.graded("d", 2, 0)
    tries = [one_try("DPO", 1, *lucky), one_try("DPO", 2, *steady)]
    write_log(str(tmp_path / "settings"), tries, runs.makers, tasks)
    logged = json.loads((tmp_path / "settings.json").read_text())["methods"]["DPO"]["tries"]
    assert [one["by_seed"] for one in logged] == [[0.9, 0.2], [0.6, 0.6]]
    assert [one["chosen"] for one in logged] == [False, True]


def with_result(method, number, mean, **settings):
    return dataclasses.replace(one_try(method, number, **settings), result=mean and Estimate(mean, mean, mean, 10))


def test_of_equal_tries_the_first_is_chosen_and_of_failed_ones_none():
    means = {("A", 1): 0.5, ("A", 2): 0.7, ("A", 3): 0.7, ("B", 1): None, ("C", 1): None, ("C", 2): 0.1}
    chosen = choose([with_result(*key, mean) for key, mean in means.items()])
    assert [(one.method, one.number) for one in chosen if one.chosen] == [("A", 2), ("C", 2)]


def test_a_try_that_was_killed_or_not_run_yet_is_open_and_nothing_is_chosen(runs, tasks, tmp_path):
    statuses = {"failed": (1,), "killed": (1, 137), "waiting": (), "again": (1, 0)}
    tries = {name: one_try("DPO", 1, runs.graded(name, 5, *ends)) for name, ends in statuses.items()}
    found = {name: with_outcome(one, runs.makers).status for name, one in tries.items()}
    assert found == {"failed": "failed", "killed": "open", "waiting": "open", "again": "finished"}
    with pytest.raises(UserError, match="ended: DPO 1"):
        write_log(str(tmp_path / "settings"), [tries["waiting"]], runs.makers, tasks)
    assert not (tmp_path / "settings.json").exists()


def test_a_failure_of_other_settings_does_not_count(runs):
    """The settings of the try were changed after it had failed."""
    one = one_try("DPO", 1, runs.graded("a", 5, 1))
    path = str(runs.folder / "a")
    runs.makers[path] = dataclasses.replace(runs.makers[path], words=(*runs.makers[path].words, "--beta", "2"))
    assert with_outcome(one, runs.makers).status == "open"


def test_validation_tasks_that_are_also_test_tasks_are_refused(runs, tasks, tmp_path):
    check_disjoint(tasks)
    shared = read_rows(Path(tasks["tasks/test"]))[3]
    write_rows(Path(tasks["tasks_settings/test"]), [*make_tasks(5, seed=2), shared | {"id": "another"}])
    with pytest.raises(UserError, match=r"\(tasks/test\) and .* share 1 task"):
        write_log(str(tmp_path / "settings"), [one_try("DPO", 1, runs.graded("a", 5, 0))], runs.makers, tasks)
