"""Agents by the humans of their training and of their evaluation, found through manifests."""

import json

import pytest

from lab.simulated_humans.human_matrix import measure_matrix
from sweet_rl.evaluation.graded_file import read_graded
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, Trajectory
from tests.support.command_line import call, write_rows
from tests.support.tables import unpadded

HUMANS = {name: {"name": name, "hash": name * 16} for name in "AB"}
HISTORY = [{"role": role, "content": "x"} for role in ("user", "assistant", "user", "assistant")]


def manifest(path, inputs, settings=None, folder=False):
    if folder:
        path.mkdir()
    target = path / "manifest.json" if folder else path.with_name(path.name + ".manifest.json")
    content = {"status": "finished", "settings": settings or {}, "inputs": dict.fromkeys(map(str, inputs), "0")}
    target.write_text(json.dumps(content))


@pytest.fixture
def files(tmp_path):
    """An agent trained with A and one trained with B, and the seed agent; each evaluated with both."""
    played = {"agent_model": "mini", "env_model": "x"}
    (tmp_path / "test.jsonl").touch()
    (tmp_path / "agent ").mkdir()
    (tmp_path / "tasks.jsonl").touch()
    for name in "AB":
        manifest(tmp_path / f"{name}.jsonl", [tmp_path / "tasks.jsonl"], played | {"human": HUMANS[name]})
        manifest(tmp_path / f"{name}.graded.jsonl", [tmp_path / f"{name}.jsonl"])
        manifest(tmp_path / f"agent {name}", [tmp_path / f"{name}.graded.jsonl"], folder=True)
    made = {}
    success = {("A", "A"): (1, 1), ("A", "B"): (0, 1), ("B", "A"): (0, 0), ("B", "B"): (1, 0), ("", "A"): (0, 1)}
    for (trained, human), rewards in success.items():
        tests = tmp_path / f"{trained} on {human}.jsonl"
        manifest(tests, [tmp_path / "test.jsonl", tmp_path / f"agent {trained}"], played | {"human": HUMANS[human]})
        rows = [
            Trajectory(Task(f"t{i}", "def f(): 0", {"test1": "f()"}), HISTORY, "x", float(r), human=HUMANS[human])
            for i, r in enumerate(rewards)
        ]
        made[trained, human] = write_rows(tmp_path / f"{tests.stem}.graded.jsonl", [row.to_dict() for row in rows])
        manifest(made[trained, human], [tests])
    return made


def test_each_file_is_in_the_cell_of_its_humans(files):
    runs = {"rft": [read_graded(str(path)) for (trained, _), path in files.items() if trained],
            "seed": [read_graded(str(files["", "A"]))]}  # fmt: skip
    a, b = "A (AAAAAAAA)", "B (BBBBBBBB)"
    matrix = measure_matrix(runs)
    found = {cell: row["success"]["mean"] for cell, row in matrix.cells.items()}
    assert found == {
        ("rft", a, a): 1.0, ("rft", a, b): 0.5, ("rft", b, a): 0.0, ("rft", b, b): 0.5, ("seed", "none", a): 0.5,
    }  # fmt: skip
    lines = unpadded(matrix.table().markdown()).splitlines()
    assert lines[0] == f"| run | trained with | success % with {a} | success % with {b} |"
    assert lines[2].startswith(f"| rft | {a} | 100.0 (") and lines[4].startswith("| seed | none | 50.0 (")
    assert lines[4].endswith("| |")


def test_runs_with_different_humans_are_compared_only_if_that_is_wanted(files):
    given = f"same={files['A', 'A']},other={files['A', 'B']}"
    refused = call("compare_runs.py", runs=given)
    assert refused.code == 2 and "--mix_humans" in refused.err
    mixed = call("compare_runs.py", runs=given, mix_humans=True)
    assert mixed.code == 0 and "simulated human" in mixed.out and "B (BBBBBBBB)" in mixed.out
    alike = call("compare_runs.py", runs=f"a={files['A', 'A']},b={files['B', 'A']}")
    assert "simulated human: A (AAAAAAAA)" in alike.out


def test_the_command_prints_and_writes_the_matrix(files, tmp_path):
    done = call("lab.simulated_humans.human_matrix", runs=f"rft={files['A', 'A']}+{files['B', 'B']}",
                output_path=tmp_path / "matrix.json", markdown_path=tmp_path / "matrix.md")  # fmt: skip
    assert done.code == 0 and "trained with" in done.out, done.err
    assert json.loads((tmp_path / "matrix.json").read_text())["tasks"] == 2
    assert unpadded((tmp_path / "matrix.md").read_text()).startswith("| run | trained with |")


def test_a_file_of_two_humans_is_no_cell(files, tmp_path):
    rows = files["A", "A"].read_text() + files["A", "B"].read_text().replace('"id": "', '"id": "again')
    (tmp_path / "both.jsonl").write_text(rows)
    with pytest.raises(UserError, match=r"A \(AAAAAAAA\), B \(BBBBBBBB\)"):
        measure_matrix({"rft": [read_graded(str(tmp_path / "both.jsonl"))]})
