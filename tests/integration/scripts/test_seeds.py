"""What stands in the manifest of a run: each setting that changes its records, the seed of every script among them."""

from __future__ import annotations

import runpy

import pytest

from sweet_rl.runs.cli import flags_of
from tests.support.command_line import ROOT, call
from tests.support.script_calls import SCRIPTS, Script, named, place  # noqa: F401

# ruff: noqa: F811 (place is a fixture)
BY_NAME = {script.name: script for script in SCRIPTS}
MORE = (
    Script(
        "play_best_of_n.py",
        {"agent_model": "{place}/model", "env_model": "mini", "critic": "{place}/model", "critic_reference": "sampled",
         "input_path": "{place}/tasks.jsonl", "output_path": "{out}/made.jsonl"},
        (),
    ),
)  # fmt: skip
BOOTSTRAP_ONLY = {"evaluate_code.py", "evaluate_html.py", "compare_runs.py"}
# Those of evaluate_code.py and make_mini_tasks.py, which write several manifests: test_bad_input.py.
ONE_OUTPUT = [
    script for script in SCRIPTS if script.other and script.name not in ("evaluate_code.py", "make_mini_tasks.py")
]
SEEDED = [*MORE, *(script for script in SCRIPTS if "seed" in script.other)]


class Opened(BaseException):
    """Raised with the settings that a script opens its output with."""


@pytest.fixture
def settings_of(monkeypatch, place, tmp_path):
    def opened(settings, inputs):
        raise Opened(settings)

    monkeypatch.setattr("sweet_rl.runs.run.new_manifest", opened)

    def settings_of(script: Script, **flags) -> dict:
        with pytest.raises(Opened) as stopped:
            result = call(script.name, **script.given(place, tmp_path, **flags))
            raise AssertionError(f"no output was opened: {result}")
        return stopped.value.args[0]

    return settings_of


@pytest.mark.parametrize("script", ONE_OUTPUT, ids=named)
def test_a_setting_that_changes_the_records_is_in_the_manifest(script, settings_of):
    default = settings_of(script)
    left_out = [name for name, value in script.other.items() if settings_of(script, **{name: value}) == default]
    assert left_out == []


@pytest.mark.parametrize("script", SEEDED, ids=named)
def test_another_seed_is_another_run(script, settings_of):
    one, other = settings_of(script, seed=3), settings_of(script, seed=4)
    assert {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)} == {"seed"}
    assert (one["seed"], other["seed"]) == (3, 4)


# Made of steps that are in SEEDED; a dialogue with a person.
OTHERS = {"colbench.py", "check_credit.py", "chat.py"}


def test_every_script_with_a_seed_is_held_to_this():
    seeded = {
        path.name for path in (ROOT / "scripts").glob("*.py") if "seed" in flags_of(runpy.run_path(str(path))["main"])
    }
    assert seeded == {script.name for script in SEEDED} | BOOTSTRAP_ONLY | OTHERS
