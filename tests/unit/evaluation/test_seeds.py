"""A file is one seed of a run, however it is named."""

import pytest

from sweet_rl.evaluation.compare import ComparisonSettings, compare_files
from sweet_rl.runs.errors import UserError
from tests.support.command_line import write_rows
from tests.support.dialogues import graded


def test_a_file_counts_once_as_a_seed_of_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = (write_rows(tmp_path / f"{shift}.jsonl", graded(shift=shift)) for shift in (0, 1))
    for seeds in (f"{first}+{first}", f"{first}+{second}+0.jsonl"):
        with pytest.raises(UserError, match="give each file once"):
            compare_files(ComparisonSettings(runs=f"S={seeds},B={second}"))


def test_other_dialogues_are_another_seed_and_two_runs_may_share_a_file(tmp_path, capsys):
    first, second = (write_rows(tmp_path / f"{shift}.jsonl", graded(shift=shift)) for shift in (0, 1))
    assert first.read_text() != second.read_text()
    compare_files(ComparisonSettings(runs=f"S={first}+{second},B={second}"))
    assert "S" in capsys.readouterr().out
