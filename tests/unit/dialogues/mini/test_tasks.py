import pytest

from sweet_rl.dialogues.mini.tasks import (
    Rule,
    compiled,
    family_of,
    make_tasks,
    near_misses,
    rules_of,
    source,
)
from sweet_rl.dialogues.mini.worlds import QUICK
from tests.support.command_line import call, read_rows


@pytest.fixture(scope="module")
def tasks():
    return make_tasks(24, seed=5)


def test_the_same_seed_gives_the_same_tasks_and_another_seed_others(tasks):
    assert make_tasks(24, seed=5) == tasks
    assert not any(other in tasks for other in make_tasks(24, seed=6))


def test_tasks_are_made_apart_from_those_of_other_files(tmp_path):
    """The same seed would make the same tasks again."""
    sizes = {"num_train": 6, "num_test": 6}
    assert call("make_mini_tasks.py", output_dir=tmp_path / "tables", **sizes).code == 0
    tables = [tmp_path / "tables" / f"{name}.jsonl" for name in ("train", "test")]
    apart = ",".join(map(str, tables))
    assert call("make_mini_tasks.py", output_dir=tmp_path / "own", apart_from=apart, **sizes).code == 0
    rows = [row for name in ("tables", "own") for path in (tmp_path / name).glob("t*.jsonl") for row in read_rows(path)]
    assert len(rows) == len({row["ground_truth"] for row in rows}) == 24


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
