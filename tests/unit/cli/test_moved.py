"""What moved out of the library is one clear error that names the new place."""

from typing import Literal

import pytest

from sweet_rl.cli import parse
from sweet_rl.cli.moved import MOVED, check_moved
from sweet_rl.errors import UserError
from tests.support.command_line import ROOT


def main(task_type: str = "code", clip: float = 1.0, normalize: Literal["top", "turn"] = "turn"):
    """Does nothing."""


def test_a_flag_that_moved_is_an_error_with_its_new_place_on_the_command_line_and_in_a_config(tmp_path):
    with pytest.raises(UserError, match="^--push_to_hub is no longer part of the library: .*hf upload"):
        parse(main, ["--push_to_hub", "me/model"])
    config = tmp_path / "old.yaml"
    config.write_text("purification: 0.5\n")
    with pytest.raises(UserError, match="^'purification' in .*old.yaml is no longer .*lab/critics"):
        parse(main, ["--config", str(config)])


def test_a_config_that_moved_is_named_unless_the_file_is_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="lab/smollm2/configs"):
        parse(main, ["--config", "configs/mini_pretrained/actor.yaml"])
    (tmp_path / "mini_pretrained").mkdir()
    (tmp_path / "mini_pretrained" / "actor.yaml").write_text("clip: 2\n")
    assert parse(main, ["--config", "mini_pretrained/actor.yaml"]) == {"clip": 2.0}


def test_a_value_that_moved_is_an_error_with_its_new_place():
    with pytest.raises(UserError, match="^--task_type mini_html is no longer .*lab/pages/domain.py"):
        parse(main, ["--task_type", "mini_html"])


def test_a_script_that_has_a_flag_or_a_value_of_this_name_takes_it():
    assert parse(main, ["--clip", "3", "--normalize", "top"]) == {"clip": 3.0, "normalize": "top"}


def test_new_places_exist():
    words = {word.strip("`:;,.()") for remedy in MOVED.values() for word in remedy.split()}
    paths = {word for word in words if "/" in word and word.split("/")[0] in ("lab", "docs", "configs")}
    modules = {word for word in words if word.startswith("lab.")}
    found = {path for path in paths if (ROOT / path).exists()}
    assert found >= {path for path in paths if "FILE" not in path} and paths
    assert all((ROOT / f"{module.replace('.', '/')}.py").is_file() for module in modules) and modules


def test_what_did_not_move_passes():
    check_moved("--seed", "--seed")
