"""A user's file and the files beside it: which are run, and what their hash covers."""

import sys
from pathlib import Path

import pytest

from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import hash_input
from sweet_rl.runs.user_file import load_from_file


def written(folder: Path, **files: str) -> Path:
    """Write modules; the path of `main.py` in the folder."""
    for name, text in files.items():
        path = folder / f"{name.replace('__in__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "main.py"


def test_two_files_of_one_stem_and_their_neighbours_of_one_name_are_apart(tmp_path):
    main = "from __future__ import annotations\nfrom dataclasses import dataclass\nfrom rules import RULE\nN = int\n{}"
    setting = "@dataclass\nclass Settings:\n    size: N = 0\n"
    one = written(tmp_path / "one", main=main.format(setting), rules="RULE = 1")
    other = written(tmp_path / "other", main=main.format(setting).replace("N = int", "N = str"), rules="RULE = 2")
    settings = [load_from_file(path, "Settings", "--x") for path in (one, other)]
    assert [load_from_file(path, "RULE", "--x") for path in (one, other, one)] == [1, 2, 1]
    assert [vars(sys.modules[kind.__module__])["N"] for kind in settings] == [int, str]


def test_the_hash_covers_the_modules_of_its_folder_that_a_file_has_loaded(tmp_path):
    files = {"main": "import json\nfrom package import inner\nX = 1", "deeper": "SHARE = 0.1"}
    files |= {"package__in____init__": "", "package__in__inner": "import deeper"}
    path = written(tmp_path, **files, unused="1")
    alone = hash_input(path)
    load_from_file(path, "X", "--x")
    known = hash_input(path)
    written(tmp_path, unused="2")  # no part of it: not imported
    assert hash_input(path) == known != alone
    written(tmp_path, deeper="SHARE = 0.25")
    assert hash_input(path) != known


def test_an_error_of_the_user_s_code_is_raised_as_it_is(tmp_path):
    with pytest.raises(KeyError, match="x"):
        load_from_file(written(tmp_path, main="import rules", rules="raise KeyError('x')"), "X", "--x")


def test_no_file_and_no_such_name_are_errors_that_name_the_flag(tmp_path):
    path = written(tmp_path, main="")
    with pytest.raises(UserError, match="--x: .*defines no X"):
        load_from_file(path, "X", "--x")
    with pytest.raises(UserError, match="--x: there is no Python file"):
        load_from_file(tmp_path / "none.py", "X", "--x")
