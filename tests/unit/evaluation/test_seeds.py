"""The same dialogues are one seed, under whatever name."""

import json
from pathlib import Path

import pytest

from sweet_rl.evaluation.comparison_files import ComparisonSettings, compare_files
from sweet_rl.runs.errors import UserError
from tests.support.command_line import read_rows, write_rows
from tests.support.dialogues import graded


@pytest.fixture
def files(tmp_path) -> dict[str, Path]:
    rows = [one.to_dict() for one in graded()]
    other = [one.to_dict() for one in graded(shift=1)]
    renamed = [row | {"id": f"other-{n}", "usage": None} for n, row in enumerate(reversed(rows))]
    spaced = tmp_path / "spaced.jsonl"
    spaced.write_text("\n\n".join(json.dumps(row, indent=None, separators=(" , ", ": ")) for row in rows) + "\n")
    return {
        "first": write_rows(tmp_path / "first.jsonl", rows),
        "second": write_rows(tmp_path / "second.jsonl", other),
        "renamed": write_rows(tmp_path / "renamed.jsonl", renamed),
        "spaced": spaced,
    }


@pytest.mark.parametrize("copies", ["first+first", "first+second+first", "first+renamed", "second+spaced+first"])
def test_a_file_counts_once_as_a_seed_of_a_run(copies, files):
    paths = "+".join(str(files[name]) for name in copies.split("+"))
    with pytest.raises(UserError, match="hold the same, so they are one seed and not two"):
        compare_files(ComparisonSettings(runs=f"S={paths},B={files['second']}"))


def test_other_dialogues_are_another_seed_and_two_runs_may_share_a_file(files, capsys):
    assert read_rows(files["first"]) != read_rows(files["second"])
    compare_files(ComparisonSettings(runs=f"S={files['first']}+{files['second']},B={files['second']}"))
    assert "S" in capsys.readouterr().out
