"""The installed command runs the scripts by the names of their files."""

import sys

import pytest

import scripts
from tests.support.command_line import ROOT, read_rows


def sweet_rl(monkeypatch, *words) -> None:
    monkeypatch.setattr(sys, "argv", ["sweet-rl", *words])
    scripts.main()


def test_every_script_is_listed(monkeypatch, capsys):
    sweet_rl(monkeypatch)
    listed = capsys.readouterr().out.split()
    files = [path.stem for folder in ("scripts", "visualizers") for path in (ROOT / folder).glob("[a-z]*.py")]
    assert set(files) <= set(listed)


def test_a_command_runs_its_script(monkeypatch, tmp_path):
    sweet_rl(monkeypatch, "make_mini_tasks", "--num_train", "2", "--num_test", "1", "--output_dir", str(tmp_path))
    assert len(read_rows(tmp_path / "train.jsonl")) == 2


def test_an_unknown_name_is_refused_with_those_that_are_known(monkeypatch, capsys):
    with pytest.raises(SystemExit) as end:
        sweet_rl(monkeypatch, "rank")
    assert end.value.code == 2 and "rank_best_of_n" in capsys.readouterr().err
