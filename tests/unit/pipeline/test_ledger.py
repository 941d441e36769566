"""The ledger of the settings that met the test tasks: what counts as other settings, and the warning."""

import json
import logging

import pytest

from sweet_rl.pipeline.ledger import evaluations, note, read_ledger
from sweet_rl.pipeline.plan import Plan

RULES = {
    "agent": ["train", "train", "train --config {config} --rate {rate} --seed {seed} --save_path {dir}/agent"],
    "agent.graded.jsonl": [
        "grade", "grading", "play --hostname {host} --model {dir}/agent --output_path {dir}/agent.graded.jsonl",
    ],
}  # fmt: skip


@pytest.fixture
def evaluate(tmp_path):
    """{graded file below the folder: (method, hash)} of two seeds, for settings in a file and in a flag."""

    def evaluate_settings(beta="0.1", rate="1", out="/out", host="n1", folder=""):
        (tmp_path / "dpo.yaml").write_text(f"beta: {beta}\n")
        values = {"config": str(tmp_path / "dpo.yaml"), "rate": rate, "host": host}
        config = {"rules": RULES, "values": values, "sizes": {}, "folders": {"strong": {}}, "outputs": {}}
        made = Plan(config, {"out": out}, [], {})
        for seed in (0, 1):
            made.make(f"{out}/seed{seed}/{folder}agent.graded.jsonl")
        found = evaluations(made.steps.values(), made.makers, out)
        assert list(found) == [f"{out}/seed{seed}/{folder}agent.graded.jsonl" for seed in (0, 1)]
        return set(found.values())

    return evaluate_settings


def test_seeds_folders_and_servers_are_no_other_settings(evaluate):
    ((method, _),) = found = evaluate()
    assert method == "agent" and evaluate(out="/elsewhere", host="n2") == found


def test_a_flag_and_a_configuration_behind_the_agent_are_settings(evaluate):
    hashes = {dict(evaluate(**changes))["agent"] for changes in ({}, {"beta": "0.2"}, {"rate": "2"})}
    assert len(hashes) == 3
    assert {method for method, _ in evaluate(folder="strong/")} == {"strong/agent"}


def test_other_settings_of_a_method_are_noted_once_and_warned_of_from_then_on(tmp_path, caplog):
    path = tmp_path / "results" / "test_ledger.jsonl"
    with caplog.at_level(logging.WARNING):
        assert note(path, [("dpo", "a"), ("sweet", "b")]) == note(path, [("dpo", "a"), ("dpo", "a")]) == []
        assert not caplog.records
        assert note(path, [("dpo", "c"), ("sweet", "b")]) == ["dpo"]
        assert note(path, [("dpo", "a")]) == ["dpo"]
    assert read_ledger(path) == {"dpo": ["a", "c"], "sweet": ["b"]}
    assert json.loads(path.read_text().splitlines()[0]) == {"method": "dpo", "settings": "a"}
    assert [record.args[0] for record in caplog.records] == ["dpo", "dpo"]


def test_nothing_to_test_leaves_no_ledger(tmp_path):
    assert note(tmp_path / "test_ledger.jsonl", []) == [] and list(tmp_path.iterdir()) == []
