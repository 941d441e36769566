"""--seed of every script: where it stands in the manifest, and what another one changes."""

from __future__ import annotations

import runpy

import pytest

from sweet_rl.cli import flags_of
from tests.support.command_line import ROOT, call
from tests.support.script_calls import SCRIPTS, Script, named, place  # noqa: F401

# ruff: noqa: F811 (place is a fixture)
MORE = (
    Script(
        "rank_best_of_n.py",
        {"critic_type": "judge", "hostname": "127.0.0.1:1", "model_id": "judge",
         "input_path": "{place}/ranked.jsonl", "output_path": "{out}/made.jsonl"},
        (),
    ),
    Script("make_mini_agent.py", {"save_path": "{out}/made"}, ()),
    Script(
        "synthesize_tasks.py",
        {"model_id": "m", "hostname": "127.0.0.1:1", "corpus_path": "{place}/tasks.jsonl",
         "text_field": "problem_description", "output_path": "{out}/made.jsonl"},
        (),
    ),
)  # fmt: skip
BOOTSTRAP_ONLY = {"evaluate_code.py", "evaluate_html.py", "compare_runs.py", "measure_mini_credit.py"}
NOTHING_RANDOM = {"lab.task_audit.audit_tasks", "lab.simulated_humans.measure_humans", "score_turns.py"}
ELSEWHERE = BOOTSTRAP_ONLY | NOTHING_RANDOM | {one.name for one in MORE}
SEEDED = [*MORE, *(script for script in SCRIPTS if script.name not in ELSEWHERE)]


class Opened(BaseException):
    """Raised with the settings that a script opens its output with."""


@pytest.fixture
def settings_of(monkeypatch, place, tmp_path):
    def opened(path, settings, inputs):
        raise Opened(settings)

    monkeypatch.setattr("sweet_rl.runs.run.Manifest", opened)

    def settings_of(script: Script, **flags) -> dict:
        with pytest.raises(Opened) as stopped:
            result = call(script.name, **script.given(place, tmp_path, **flags))
            raise AssertionError(f"no output was opened: {result}")
        return stopped.value.args[0]

    return settings_of


def different(one: dict, other: dict) -> set[str]:
    return {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)}


@pytest.mark.parametrize("script", SEEDED, ids=named)
def test_another_seed_is_another_run(script, settings_of):
    default, same, other = settings_of(script), settings_of(script, seed=0), settings_of(script, seed=1)
    assert default == same
    assert different(default, other) == {"seed"} and (default["seed"], other["seed"]) == (0, 1)


def test_the_seed_of_the_bootstrap_is_no_setting_of_the_records(settings_of):
    script = next(script for script in SCRIPTS if script.name == "evaluate_code.py")
    assert settings_of(script, seed=0) == settings_of(script, seed=1)


def test_every_script_with_a_seed_is_held_to_this():
    seeded = {
        path.name for path in (ROOT / "scripts").glob("*.py") if "seed" in flags_of(runpy.run_path(str(path))["main"])
    }
    held = {script.name for script in SEEDED if not script.name.startswith("lab.")}
    assert seeded == held | BOOTSTRAP_ONLY


def test_a_seed_makes_the_same_tasks_again_and_another_one_other_tasks(place, tmp_path):
    script = next(script for script in SCRIPTS if script.name == "make_mini_tasks.py")
    made = []
    for number, seed in enumerate((1, 1, 2)):
        out = tmp_path / str(number)
        out.mkdir()
        assert call(script.name, **script.given(place, out, seed=seed)).code == 0
        made.append([path.read_bytes() for path in sorted(out.rglob("*.jsonl"))])
    assert made[0] == made[1] and all(one != other for one, other in zip(made[0], made[2], strict=True))
    refused = call(script.name, **script.given(place, tmp_path / "0", seed=2))
    assert refused.code == 2 and " seed: 1 -> 2" in refused.err
