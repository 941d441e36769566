"""Packaged files of settings are found by their name."""

from pathlib import Path

from sweet_rl.runs.cli import configs
from sweet_rl.runs.cli.configs import find_config, packaged_config


def test_a_file_that_exists_wins_over_the_packaged_one_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    packaged = packaged_config("paper/backend/critic.yaml")
    assert packaged.is_file()
    assert find_config("paper/backend/critic.yaml") == find_config("configs/paper/backend/critic.yaml") == packaged
    own = tmp_path / "paper" / "backend" / "critic.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("seed: 1\n")
    assert find_config("paper/backend/critic.yaml") == Path("paper/backend/critic.yaml")
    assert find_config("nothing.yaml") == Path("nothing.yaml")
    assert find_config("paper") == Path("paper")  # a folder is no file of settings


def test_an_install_has_them_in_the_package_and_a_checkout_beside_it(tmp_path, monkeypatch):
    folders = (tmp_path / "sweet_rl" / "configs", tmp_path / "configs")
    monkeypatch.setattr(configs, "FOLDERS", folders)
    for folder in reversed(folders):
        folder.mkdir(parents=True)
        (folder / "a.yaml").write_text("")
        assert packaged_config("a.yaml") == folder / "a.yaml"
