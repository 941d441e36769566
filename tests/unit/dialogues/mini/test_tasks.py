import hashlib
import json

import pytest

from sweet_rl.dialogues.mini.tasks import compiled, family_of, make_tasks, near_misses, rules_of, source
from sweet_rl.dialogues.mini.worlds import HARD
from tests.support.command_line import call, read_rows


@pytest.fixture(scope="module")
def tasks():
    return make_tasks(24, seed=5)


def test_training_and_test_tasks_share_no_solution(tmp_path):
    assert call("make_mini_tasks.py", output_dir=tmp_path, num_train=6, num_test=6).code == 0
    rows = [row for path in tmp_path.glob("t*.jsonl") for row in read_rows(path)]
    assert len(rows) == len({row["ground_truth"] for row in rows}) == 12


def test_ten_tests_tell_every_rule_apart(tasks):
    for task in tasks:
        family, rules = family_of(task["mini"]), rules_of(task["mini"])
        right = compiled(task["ground_truth"], family.name)
        calls = list(task["test_cases"].values())
        assert len(calls) == len(set(calls)) == 10
        space = {family.name: right}
        expected = [eval(call, space) for call in calls]
        for miss in near_misses(rules):
            wrong = compiled(source(family, miss), family.name)
            if len(miss) < len(rules):
                assert [eval(call, {family.name: wrong}) for call in calls] != expected


def digest(rows) -> str:
    return hashlib.sha256(json.dumps(list(rows), ensure_ascii=False).encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    "make, expected",
    [
        (lambda: make_tasks(40, seed=0), "d9f1232f0443600d"),
        (lambda: make_tasks(40, seed=0, world=HARD), "7454b4b252e4f813"),
    ],
    ids=["tasks", "hard tasks"],
)
def test_what_a_seed_makes_is_what_it_always_made(make, expected):
    """The figures in results/ were measured on them. A change here needs new agents and new figures."""
    assert digest(make()) == expected
