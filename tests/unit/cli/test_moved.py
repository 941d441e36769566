"""What moved out of the library is an error that names the new place."""

from typing import Literal

import pytest

from sweet_rl.cli import parse
from sweet_rl.cli.moved import MOVED
from sweet_rl.errors import UserError
from tests.support.command_line import ROOT


def main(task_type: str = "code", clip: float = 1.0, normalize: Literal["top", "turn"] = "turn"):
    """Does nothing."""


def test_a_flag_a_value_and_a_config_that_moved_are_errors_with_their_new_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="^--push_to_hub .*hf upload"):
        parse(main, ["--push_to_hub", "me/model"])
    with pytest.raises(UserError, match="^--task_type mini_html .*lab/pages/domain.py"):
        parse(main, ["--task_type", "mini_html"])
    with pytest.raises(UserError, match="lab/smollm2/configs"):
        parse(main, ["--config", "configs/mini_pretrained/actor.yaml"])
    (tmp_path / "old.yaml").write_text("purification: 0.5\n")
    with pytest.raises(UserError, match="^'purification' in .*old.yaml .*lab/critics"):
        parse(main, ["--config", "old.yaml"])


def test_a_script_that_has_a_flag_a_value_or_a_file_of_this_name_takes_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert parse(main, ["--clip", "3", "--normalize", "top"]) == {"clip": 3.0, "normalize": "top"}
    (tmp_path / "mini_pretrained").mkdir()
    (tmp_path / "mini_pretrained" / "actor.yaml").write_text("clip: 2\n")
    assert parse(main, ["--config", "mini_pretrained/actor.yaml"]) == {"clip": 2.0}


def test_new_places_exist():
    words = {word.strip("`:;,.()") for remedy in MOVED.values() for word in remedy.split()}
    paths = {word for word in words if word.split("/")[0] in ("lab", "docs", "configs") and "FILE" not in word}
    modules = {word for word in words if word.startswith("lab.")}
    assert paths and [path for path in paths if not (ROOT / path).exists()] == []
    assert modules and [name for name in modules if not (ROOT / f"{name.replace('.', '/')}.py").is_file()] == []
