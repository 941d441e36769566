"""A user's file and the files beside it: which are run, what their hash covers, and whose line an error names."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import hash_input
from sweet_rl.runs.user_file import finite_number, load_from_file


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


def test_an_edit_of_a_neighbour_in_the_same_second_and_of_the_same_size_is_run(tmp_path):
    path = written(tmp_path, main="from rules import RULE", rules="RULE = 1")
    assert load_from_file(path, "RULE", "--x") == 1
    status = os.stat(tmp_path / "rules.py")
    (tmp_path / "rules.py").write_text("RULE = 2")
    os.utime(tmp_path / "rules.py", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert load_from_file(path, "RULE", "--x") == 2


@pytest.mark.parametrize("main", [
    "from rules import score",
    "def reward(task, answer):\n    import rules\n    return rules.score()",
    "import importlib\nrules = importlib.import_module('rules')",
    "from package import inner",
    "from package.inner import score",
])  # fmt: skip
def test_the_hash_covers_what_a_file_imports_from_beside_it_however_deep(main, tmp_path):
    files = {"main": main, "rules": "import deeper", "deeper": "SHARE = 0.1", "package__in____init__": ""}
    files |= {"package__in__inner": "from . import leaf\nfrom rules import *", "package__in__leaf": "import deeper"}
    path = written(tmp_path, **files, unused="1")
    known = hash_input(path)
    written(tmp_path, unused="2", json="import unused")  # no part of it: not imported
    assert hash_input(path) == known
    written(tmp_path, deeper="SHARE = 0.2")
    assert hash_input(path) != known


def test_a_file_without_neighbours_has_the_hash_of_its_bytes_and_one_that_moves_keeps_its_own(tmp_path):
    alone = written(tmp_path / "alone", main="import json, numpy, sweet_rl")
    (tmp_path / "same.txt").write_bytes(alone.read_bytes())
    assert hash_input(alone) == hash_input(tmp_path / "same.txt")
    paths = [written(tmp_path / name, main="import rules", rules="1") for name in ("here", "there")]
    assert hash_input(paths[0]) == hash_input(paths[1]) != hash_input(alone)


def test_the_hash_is_of_what_was_run_also_after_an_edit(tmp_path):
    path = written(tmp_path, main="from rules import RULE", rules="RULE = 1")
    known = hash_input(path)
    load_from_file(path, "RULE", "--x")
    written(tmp_path, rules="RULE = 2")
    assert hash_input(path) == known
    load_from_file(path, "RULE", "--x")
    assert hash_input(path) != known


@pytest.mark.parametrize("line", ["raise KeyError('x')", "next(iter([]))", "import sys; sys.exit(0)", "x = = 1"])
def test_an_error_names_the_line_of_the_neighbour_that_raised_it(line, tmp_path):
    path = written(tmp_path, main="import rules\nX = 1", rules=f"A = 1\n{line}")
    with pytest.raises(UserError, match=rf"^--x: {tmp_path}/rules.py, line 2: "):
        load_from_file(path, "X", "--x")


def test_what_is_no_finite_number_is_none():
    for value in (None, True, np.True_, "1", 10**400, float("nan"), float("inf"), [1.0], np.zeros(2), 1j):
        assert finite_number(value) is None
    assert [finite_number(value) for value in (1, 0.5, np.float32(0.5), np.int64(2))] == [1.0, 0.5, 0.5, 2.0]


def test_an_error_that_cannot_say_what_it_is_is_named_by_its_kind(tmp_path):
    text = "class Mute(Exception):\n    def __str__(self):\n        raise RuntimeError\nraise Mute"
    with pytest.raises(UserError, match="main.py, line 4: Mute: $"):
        load_from_file(written(tmp_path, main=text), "X", "--x")
