"""Every command of the laboratory's recipes is one that its script takes."""

import runpy
import subprocess

import pytest

from tests.integration.scripts.test_launchers import noted, parsed, stand_in
from tests.support.command_line import ROOT

RECIPES = sorted(path.relative_to(ROOT / "lab") for path in ROOT.glob("lab/*/*.sh"))
OTHERS = {"WORLD": "quick", "SHARE": "0", "KL": "1", "MAKER": "2"}  # variables with other branches of the recipes


@pytest.mark.parametrize("variables", [{}, OTHERS], ids=["default", "others"])
@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_every_command_of_a_recipe_is_one_that_its_script_takes(recipe, variables, tmp_path, monkeypatch):
    """Programs that note the commands stand for python, so a recipe may end where it needs an output."""
    out = tmp_path / "out"
    (out / "tasks").mkdir(parents=True)
    (out / "tasks" / "train.jsonl").touch()
    given = {"OUT": str(out), **variables}
    command, environment = stand_in(tmp_path, "echo success", f"../lab/{recipe.with_suffix('')}", **given)
    subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=60)
    checked = 0
    for words in noted(tmp_path):
        if has_main(words):
            parsed(words, monkeypatch)
            checked += 1
    assert checked


def has_main(words: list[str]) -> bool:
    """Whether the program reads its flags by `run(main)`, and not by fire."""
    path = words[2].replace(".", "/") + ".py" if words[1] == "-m" else words[1]
    return "main" in runpy.run_path(str(ROOT / path))
