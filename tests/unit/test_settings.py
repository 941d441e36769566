"""The settings to try and the chosen ones, as committed: a fair fight for every row of the tables that results/ has."""

from __future__ import annotations

import hashlib
import json
import shlex
from pathlib import Path

import pytest
import yaml

from sweet_rl.pipeline.tries import chosen_settings, read_tries
from tests.support.command_line import ROOT

dodo = pytest.importorskip("workflow.dodo", reason="needs: pip install -e '.[workflow]'")
tables = pytest.importorskip("workflow.tables")

WORLDS = sorted((ROOT / "configs").glob("*/tries.yaml"))
OPTIONS = {"mini": [], "mini_hard": ["--world", "hard"]}  # of the worlds
ROWS = tables.METHODS | tables.ABLATIONS | tables.MINI_ABLATIONS
NOT_TRAINED = {"zero_shot"}


def planned(*words: str, settings: Path | None = None) -> tables.Tables:
    options = dodo.parse([*words, "--mini", "--output", "/out", *(["--settings", str(settings)] if settings else [])])
    return dodo.prepare(options)[0]


@pytest.mark.parametrize("path", WORLDS, ids=lambda path: path.parent.name)
def test_every_trained_row_has_as_many_tries_as_the_others(path):
    assert {*ROWS.values()} - NOT_TRAINED <= {method.run for method in read_tries(path)}


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch):
    monkeypatch.chdir(ROOT)


def test_tries_meet_neither_the_tasks_nor_the_seeds_nor_the_files_of_the_tables():
    made = planned("settings", "--try_seeds", "2")
    tries = [step for step in made.steps.values() if "/seed" in step.output]
    assert {Path(step.output).parts[2] for step in tries} == {"seed100", "seed101"}
    for step in tries:
        assert "/out/tasks/" not in shlex.join(step.words), step.words
    (tasks,) = [step for step in made.steps.values() if step.output == "/out/tasks_settings"]
    apart = tasks.words[tasks.words.index("--apart_from") + 1]
    assert apart.split(",") == ["/out/tasks/train.jsonl", "/out/tasks/test.jsonl"]
    others = [path for target in ("table2", "table3", "figure3a") for path in planned(target).steps]
    assert not {step.output for step in tries} & set(others)


def test_every_setting_reaches_its_step_and_a_method_has_steps_of_its_own():
    made = planned("settings")
    for folder, one in made.tries.items():
        for step, flags in one.settings.items():
            paths = (f"/out/seed100/{folder}/{step}{end}" for end in ("", ".jsonl"))
            (path,) = (path for path in paths if path in made.makers or path in made.same)
            words = made.makers[made.same.get(path, path)].words
            for flag, value in flags.items():
                assert words[words.index(f"--{flag}") + 1] == str(value), (folder, step, flag)


@pytest.mark.parametrize("entry, said", [
    ("{run: rft, settings: [rtf.learning_rate], tries: [[1.0e-4]]}", "a: rtf: no such step is behind rft"),
    ("{run: rtf, settings: [rtf.learning_rate], tries: [[1.0e-4]]}", "no rule of the pipeline makes .*/rtf"),
])  # fmt: skip
def test_an_unknown_step_or_agent_is_refused(entry, said, tmp_path, monkeypatch):
    (tmp_path / "tries.yaml").write_text(f"a: {entry}")
    monkeypatch.setitem(dodo.CONFIG["sizes"]["mini"], "configs", str(tmp_path))
    with pytest.raises(dodo.UserError, match=said):
        planned("settings")


def test_tables_take_the_chosen_settings_of_their_world_and_say_which(tmp_path):
    chosen = {"dpo": {"beta": 0.7}, "critic_seed": {"max_epochs": 33}, "sweet_seed": {"learning_rate": 0.01}}
    tries = {step: {"tries": [{"settings": {step: flags}, "chosen": True}]} for step, flags in chosen.items()}
    log = tmp_path / "settings.json"
    log.write_text(json.dumps({"methods": tries}))
    made = planned("table2", "table3", "figure3b", "pages", "--seeds", "1", settings=log)

    def value(path: str, flag: str) -> str | None:
        words = made.makers[f"/out/seed0/{path}"].words
        return words[words.index(flag) + 1] if flag in words else None

    assert value("dpo", "--beta") == value("first_10_tasks/dpo", "--beta") == "0.7"
    assert value("critic_seed", "--max_epochs") == "33" and value("critic", "--max_epochs") is None
    assert value("sweet_seed", "--learning_rate") == "0.01" and value("sweet", "--learning_rate") is None
    assert value("pages/dpo", "--beta") is None  # another world
    note = made.makers["/out/results/table2.json"].words
    assert note[note.index("--settings") + 1] == f"{hashlib.sha256(log.read_bytes()).hexdigest()[:12]} (settings.json)"


@pytest.mark.parametrize("world", OPTIONS)
def test_the_settings_of_the_tables_are_the_chosen_ones(world):
    """The recipe run_mini.sh and a reader of the configurations see the settings of the methods of table 2 too."""
    log = ROOT / "results" / world / "settings.json"
    if not log.is_file():
        pytest.skip(f"needs the log of `reproduce.sh settings --mini {' '.join(OPTIONS[world])}` in {log.parent}")
    made = planned("table2", "table3", "online", "--seeds", "1", *OPTIONS[world])
    steps = {Path(path).stem: step for path, step in made.makers.items() if "/seed0/" in path}
    of_table_2 = planned("table2", "--seeds", "1", *OPTIONS[world]).steps
    for name, flags in chosen_settings(log).items():
        words = steps[name].words
        assert {flag: words[words.index(f"--{flag}") + 1] for flag in flags} == {k: str(v) for k, v in flags.items()}
        if steps[name].output in of_table_2 and not name.endswith("_seed"):  # a row of its own in the hard world
            file = words[words.index("--config") + 1]
            configured = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
            assert {flag: configured[flag] for flag in flags} == flags, f"{file}: write the chosen settings into it"
