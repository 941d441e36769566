"""The table of critics, by hand and of the committed figures."""

import json

from lab.dose.critics import CRITICS, DECISIONS, RESULTS, collect, markdown


def test_the_table_has_the_committed_critics():
    assert (RESULTS / "critics.md").read_text() == markdown(json.loads((RESULTS / "critics.json").read_text()))


def test_a_later_seed_is_added_and_tries_without_a_name_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr("lab.dose.critics.RESULTS", tmp_path)
    name = next(iter(CRITICS))
    for seed, share in ((0, 40.0), (1, 60.0)):
        run = tmp_path / f"runs/untaught/seed{seed}"
        run.mkdir(parents=True)
        for file in (name, "critic3200-9e-9-0"):
            (run / f"{file}.json").write_text(json.dumps({column: share for column in (*DECISIONS, "success")}))
        collect(str(tmp_path / "runs"))
        (run / f"{name}.json").unlink()
    found = json.loads((tmp_path / "critics.json").read_text())
    assert list(found["untaught"]) == [name]
    assert markdown(found).endswith("| untrained (PMI) | 2 | " + " | ".join(4 * ["50.0 (40.0, 60.0)"]) + " |\n")
