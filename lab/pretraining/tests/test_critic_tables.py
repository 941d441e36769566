"""The tables of critics, by hand and of the committed figures."""

import json

import pytest

from lab.pretraining.critic_tables import DECISIONS, NAMES, RESULTS, collect, committed, dose


@pytest.mark.parametrize("part", ["placebo", "dose"])
def test_a_table_has_the_committed_figures(part):
    assert (RESULTS / f"{part}_critics.md").read_text() == committed(part)


@pytest.mark.parametrize(("part", "name"), [("placebo", "true-seed"), ("dose", "criticuntrained")])
def test_a_later_seed_is_added_and_what_has_no_name_is_left_out(part, name, tmp_path, monkeypatch):
    monkeypatch.setattr("lab.pretraining.critic_tables.RESULTS", tmp_path)
    assert name in NAMES[part]
    for seed, share in ((0, 40.0), (1, 60.0)):
        run = tmp_path / f"run{seed}/quick/seed{seed}"
        run.mkdir(parents=True)
        for file in (name, "critic3200-9e-9-0", f"{name}.ranked.jsonl.manifest"):
            (run / f"{file}.json").write_text(json.dumps({column: share for column in (*DECISIONS, "success")}))
        collect(part, str(tmp_path / f"run{seed}"))
    found = json.loads((tmp_path / f"{part}_critics.json").read_text())
    assert list(found["quick"]) == [name] and list(found["quick"][name]) == ["seed0", "seed1"]
    if part == "dose":
        assert dose(found).endswith("| untrained (PMI) | 2 | " + " | ".join(4 * ["50.0 (40.0, 60.0)"]) + " |\n")
