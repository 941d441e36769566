"""Settings that were chosen reach the steps of dodo.py; those of results/ are those of configs/."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from lab.reproduce.tests.test_dodo import planned
from lab.settings.try_settings import main
from tests.support.command_line import ROOT


def value(words: list[str], flag: str) -> str | None:
    return words[words.index(flag) + 1] if flag in words else None


def test_tables_take_the_chosen_settings(tmp_path):
    chosen = {"dpo": {"beta": 0.7}, "critic_seed": {"max_steps": 33}, "sweet_seed": {"learning_rate": 0.01}}
    tries = {step: {"tries": [{"settings": {step: flags}, "chosen": True}]} for step, flags in chosen.items()}
    log = tmp_path / "settings.json"
    log.write_text(json.dumps({"methods": tries}))
    steps = planned(tmp_path, SETTINGS=str(log), SEEDS="1")
    assert value(steps["seed0/dpo"], "--beta") == value(steps["seed0/first_10_tasks/dpo"], "--beta") == "0.7"
    assert value(steps["seed0/critic_seed"], "--max_steps") == "33"
    assert value(steps["seed0/critic"], "--max_steps") is None
    assert value(steps["seed0/sweet_seed"], "--learning_rate") == "0.01"


@pytest.mark.parametrize("world", ["quick", "hard"])
def test_the_settings_of_the_tables_are_the_chosen_ones(world, tmp_path):
    """The recipe run_mini.sh and a reader of the configurations see the settings of the methods of Table 2 too."""
    name = {"quick": "mini", "hard": "mini_hard"}[world]
    log = ROOT / "results" / name / "settings.json"
    if not log.is_file():
        pytest.skip(f"needs the log of `python -m lab.settings.try_settings --world {world}` in {log.parent}")
    steps = planned(tmp_path, WORLD=world, SEEDS="1")
    for method in json.loads(log.read_text())["methods"].values():
        (settings,) = (one["settings"] for one in method["tries"] if one["chosen"])
        for step, flags in settings.items():
            if not step.startswith("sweet"):  # the configurations have these budgets in steps, the tries had epochs
                flags = {flag: value for flag, value in flags.items() if flag != "max_epochs"}
            words = steps.get(f"seed0/{step}") or steps.get(f"seed0/{step}.jsonl")
            if words is None:  # of a study in the laboratory
                assert "pmi_belief" in step or "grpo" in step
                continue
            assert {flag: value(words, f"--{flag}") for flag in flags} == {k: str(v) for k, v in flags.items()}
            if step in ("rft", "dpo", "critic", "turn_pairs", "sweet"):
                file = value(words, "--config")
                configured = yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))
                assert {flag: configured[flag] for flag in flags} == flags, f"{file}: write the chosen settings into it"


@pytest.mark.slow
def test_tries_are_run_logged_and_continued(tmp_path):
    """1. A try that fails is logged and not chosen. 2. The same call again runs nothing that is done."""
    pytest.importorskip("doit", reason="needs: pip install -e '.[workflow]'")
    tries, out = tmp_path / "tries.yaml", tmp_path / "out"
    tries.write_text("imitation: {run: rft, settings: [rft.learning_rate], tries: [[-1.0], [2.0e-4]]}")
    main(str(out), tries=str(tries), smoke=True)
    first = json.loads((out / "settings.json").read_text())
    failed, chosen = first["methods"]["imitation"]["tries"]
    assert (failed["status"], chosen["status"], chosen["chosen"]) == ("failed", "finished", True)  # 1
    assert chosen["cpu_seconds"] > 1 and first["validation_tasks"] == 8
    made = Path(out, "try2_rft", "seed100", "rft", "manifest.json").read_bytes()
    main(str(out), tries=str(tries), smoke=True)
    assert json.loads((out / "settings.json").read_text()) == first
    assert Path(out, "try2_rft", "seed100", "rft", "manifest.json").read_bytes() == made  # 2
