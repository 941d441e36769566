import random

import pytest

from sweet_rl.dialogues.mini.tasks import (
    Rule,
    compiled,
    draw_rules,
    family_of,
    make_tasks,
    near_misses,
    rules_of,
    source,
)
from sweet_rl.dialogues.mini.worlds import QUICK, TOPIC_BY_NAME
from tests.support.command_line import call, read_rows


@pytest.fixture(scope="module")
def tasks():
    return make_tasks(24, seed=5)


def test_the_same_seed_gives_the_same_tasks_and_another_seed_others(tasks):
    assert make_tasks(24, seed=5) == tasks
    assert not any(other in tasks for other in make_tasks(24, seed=6))


def test_excluded_solutions_do_not_come_back(tasks):
    solutions = {task["ground_truth"] for task in tasks}
    assert not solutions & {task["ground_truth"] for task in make_tasks(24, seed=5, exclude=solutions)}


def test_tasks_are_made_apart_from_those_of_other_files(tmp_path):
    """The same seed would make the same tasks again."""
    sizes = {"num_train": 6, "num_test": 6}
    assert call("make_mini_tasks.py", output_dir=tmp_path / "tables", **sizes).code == 0
    tables = [tmp_path / "tables" / f"{name}.jsonl" for name in ("train", "test")]
    apart = ",".join(map(str, tables))
    assert call("make_mini_tasks.py", output_dir=tmp_path / "own", apart_from=apart, **sizes).code == 0
    rows = [row for name in ("tables", "own") for path in (tmp_path / name).glob("t*.jsonl") for row in read_rows(path)]
    assert len(rows) == len({row["ground_truth"] for row in rows}) == 24


def test_thousands_of_distinct_tasks_can_be_made():
    rng = random.Random(1)
    drawn = [source(family, draw_rules(family, rng)) for family in QUICK.families for _ in range(200)]
    assert len(set(drawn)) > 3000  # without their tests, which take a hundred times as long to choose
    assert {text.partition("(")[0] for text in drawn} == {f"def {family.name}" for family in QUICK.families}


def test_the_description_names_no_hidden_number(tasks):
    for task in tasks:
        assert not any(character.isdigit() for character in task["problem_description"])


def test_the_source_of_known_rules_is_as_written_by_hand():
    family = next(family for family in QUICK.families if family.name == "parking_fee")
    rules = [Rule("cap", 0, 30, 0), Rule("allowance", 0, 2, 0), Rule("rate", 0, 4, 0)]
    assert source(family, rules) == (
        "def parking_fee(hours, resident):\n"
        "    total = hours\n"
        "    total = max(total - 2, 0)\n"
        "    total = total * 4\n"
        "    total = min(total, 30)\n"
        "    return total"
    )


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


def test_every_family_hides_known_topics_and_every_rule_can_be_drawn():
    for family in QUICK.families:
        assert set(family.topics) <= set(TOPIC_BY_NAME)
        for rule in draw_rules(family, random.Random(0)):
            low, high = TOPIC_BY_NAME[rule.topic].a
            assert low <= rule.a <= high
