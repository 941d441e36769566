"""The installed command names the scripts."""

import sys

import pytest

import scripts
from tests.support.command_line import ROOT, read_rows


def sweet_rl(monkeypatch, *words) -> None:
    monkeypatch.setattr(sys, "argv", ["sweet-rl", *words])
    scripts.main()


def test_every_script_has_a_name_and_every_name_a_script(monkeypatch, capsys):
    sweet_rl(monkeypatch)
    listed = capsys.readouterr().out
    assert [path.stem for path in (ROOT / "scripts").glob("[a-z]*.py") if path.stem not in listed] == []
    folders = (ROOT / "scripts", ROOT / "visualizers")
    assert all(any((folder / f"{script}.py").is_file() for folder in folders) for script in scripts.COMMANDS.values())


def test_a_command_runs_its_script_by_either_name(monkeypatch, tmp_path):
    for name in ("mini-tasks", "make_mini_tasks"):
        sweet_rl(monkeypatch, name, "--num_train", "2", "--num_test", "1", "--output_dir", str(tmp_path / name))
        assert len(read_rows(tmp_path / name / "train.jsonl")) == 2


def test_an_unknown_name_is_refused(monkeypatch, capsys):
    with pytest.raises(SystemExit) as end:
        sweet_rl(monkeypatch, "simulat")
    assert end.value.code == 2 and "sweet-rl --help lists them" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        sweet_rl(monkeypatch, "import", "--input_path", "rows.jsonl")
    assert end.value.code == 2 and "docs/files.md has the lines" in capsys.readouterr().err
