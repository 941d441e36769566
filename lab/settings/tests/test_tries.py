"""The log of tries: what was tried, what came of it, and the choice by validation tasks alone."""

import dataclasses
import json
import re

import pytest

from lab.settings.tries import Try, as_markdown, choose, read_tries, write_log
from sweet_rl.evaluation.statistics import Estimate
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, Trajectory
from tests.support.command_line import ROOT, write_rows
from tests.support.tables import unpadded

TASKS = [Task(f"task {i}", f"def f(): return {i}", {"test1": "f()"}, id=f"t{i}") for i in range(10)]
HISTORY = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "x"}]
ROWS = {"rft", "dpo", "sweet", "sweet_without_c", "sweet_without_normalisation", "sweet_one_mean", "sweet_seed",
        "sweet_regression_head"}  # fmt: skip


def graded(folder, name, successes):
    """The graded file of an agent that solves so many of the ten tasks; 60 CPU seconds were spent on it."""
    rows = [Trajectory(task, HISTORY, "x", float(i < successes), id=f"{task.id}-0", ending="answered")
            for i, task in enumerate(TASKS)]  # fmt: skip
    path = folder / f"{name}.graded.jsonl"
    write_rows(path, [row.to_dict() for row in rows])
    manifest = {"status": "finished", "settings": {}, "inputs": {}, "cpu_seconds": 60}
    path.with_name(f"{path.name}.manifest.json").write_text(json.dumps(manifest))
    return str(path)


def one_try(method, number, **settings):
    return Try(method, method.lower(), number, {method.lower(): settings or {"beta": number}})


def test_the_best_on_validation_is_chosen_for_each_method_and_every_try_is_logged(tmp_path):
    tries = [one_try("DPO", 1), one_try("DPO", 2), one_try("SFT", 1), one_try("SFT", 2)]
    tries[3] = dataclasses.replace(tries[3], failed=True)
    files = [[graded(tmp_path, name, count)] for name, count in (("a", 3), ("b", 7), ("c", 6))]
    write_log(tmp_path / "settings", tries, [*files, ["not there"]])
    log = json.loads((tmp_path / "settings.json").read_text())
    found = {(m, t["number"]): t for m, method in log["methods"].items() for t in method["tries"]}
    assert {key for key, one in found.items() if one["chosen"]} == {("DPO", 2), ("SFT", 1)}
    assert [one["status"] for one in found.values()] == ["finished", "finished", "finished", "failed"]
    assert found["DPO", 2]["by_seed"] == [0.7] and found["DPO", 2]["result"]["tasks"] == 10
    assert [one["cpu_seconds"] for one in found.values()] == [60, 60, 60, 0]
    assert log["validation_tasks"] == 10 and log["seeds"] == 1
    table = unpadded((tmp_path / "settings.md").read_text())
    assert re.search(r"^\| DPO \| 2 \| 70.0 \| .* to .* \| 1.0 \| as 1, dpo.beta 2 \| yes \|$", table, re.MULTILINE)
    assert "| SFT | 2 | failed | | 0.0 | as 1, sft.beta 2 | |" in table


def test_of_a_later_try_only_the_settings_that_differ_from_the_first_are_in_the_table():
    tries = [with_result("DPO", 1, 0.5, beta=0.1, epochs=2), with_result("DPO", 2, 0.6, beta=0.3, epochs=2)]
    table = unpadded(as_markdown(tries, "success", 10, 1))
    assert "| dpo.beta 0.1, dpo.epochs 2 |" in table and "| as 1, dpo.beta 0.3 |" in table


def test_a_try_of_several_seeds_counts_by_their_mean(tmp_path):
    lucky, steady = (
        [graded(tmp_path, f"{count}{seed}", count) for seed, count in enumerate(counts)] for counts in ((9, 2), (6, 7))
    )
    write_log(tmp_path / "settings", [one_try("DPO", 1), one_try("DPO", 2)], [lucky, steady])
    logged = json.loads((tmp_path / "settings.json").read_text())["methods"]["DPO"]["tries"]
    assert [one["by_seed"] for one in logged] == [[0.9, 0.2], [0.6, 0.7]]
    assert [one["chosen"] for one in logged] == [False, True]


def with_result(method, number, mean, **settings):
    return dataclasses.replace(one_try(method, number, **settings), result=mean and Estimate(mean, mean, mean, 10))


def test_of_equal_tries_the_first_is_chosen_and_of_failed_ones_none():
    means = {("A", 1): 0.5, ("A", 2): 0.7, ("A", 3): 0.7, ("B", 1): None, ("C", 1): None, ("C", 2): 0.1}
    chosen = choose([with_result(*key, mean) for key, mean in means.items()])
    assert [(one.method, one.number) for one in chosen if one.chosen] == [("A", 2), ("C", 2)]


@pytest.mark.parametrize("world", ["quick", "hard"])
def test_every_trained_row_of_the_tables_has_as_many_tries_as_the_others(world):
    assert {one.run for one in read_tries(ROOT / "lab" / "settings" / "configs" / f"{world}.yaml")} >= ROWS


@pytest.mark.parametrize("text, said", [
    ("{a: {run: a, settings: [a.x], tries: [[1]]}, b: {run: b, settings: [b.x], tries: [[1], [2]]}}", "same number"),
    ("{a: {run: a, settings: [a.x], tries: [[1], [1]]}}", "try 1"),
    ("{a: {run: a, settings: [s.x], tries: [[1]]}, b: {run: b, settings: [s.x], tries: [[2]]}}", "both set s"),
    ("{a: {run: a, settings: [a.x], tries: [[1, 2]]}}", "a.x"),
    ("{a: {run: a, settings: [x], tries: [[1]]}}", "step.flag"),
    ("{a: {run: a, settings: [a.x], tries: []}}", "no tries"),
    ("[]", "methods by name"),
])  # fmt: skip
def test_a_list_of_tries_that_is_unfair_or_unreadable_is_refused(text, said, tmp_path):
    (tmp_path / "tries.yaml").write_text(text)
    with pytest.raises(UserError, match=said):
        read_tries(tmp_path / "tries.yaml")
