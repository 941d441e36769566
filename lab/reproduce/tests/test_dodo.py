"""dodo.py: with WORLD=paper every setting is the paper's; doit runs its steps once."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import subprocess
from functools import cache
from pathlib import Path

import pytest

from sweet_rl.dialogues.mini.tasks import make_tasks
from tests.integration.scripts.test_launchers import parsed
from tests.support.command_line import ROOT, read_rows
from tests.unit.test_configs import BACKEND, LLAMA_8B, LLAMA_70B

pytest.importorskip("doit", reason="needs: pip install -e '.[workflow]'")


def doit(*words: str, **variables: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | variables
    return subprocess.run(["doit", *words], cwd=ROOT, env=environment, capture_output=True, text=True)


def planned(out: Path, **variables: str) -> dict[str, list[str]]:
    """The words of each step's command, by the name of the step, in the order of dodo.py."""
    listed = doit(
        "list", "--all", "--template", "{name}\t{doc}", "--sort", "definition", "steps", OUT=str(out), **variables
    )
    assert listed.returncode == 0, listed.stderr
    rows = (line.split("\t") for line in listed.stdout.splitlines())
    return {name.removeprefix("steps:"): shlex.split(command) for name, command in rows if ":" in name}


@cache
def paper() -> dict[str, list[str]]:
    return planned(Path("/tmp/sweet_rl-paper"), WORLD="paper", HUMAN_SERVER="n1:8000", HOSTED="1")


def departures(names: str, monkeypatch) -> dict[str, dict]:
    """By step, the settings that are not those of the paper's method; every command is one that its script takes."""
    found: dict[str, dict] = {}
    for name, words in paper().items():
        if re.fullmatch(names, name):
            settings = parsed(words, monkeypatch)
            config = re.search(r"configs/paper/backend/(\w+)\.yaml", " ".join(words))
            expected = BACKEND[config[1]] if config else {}
            changed = {key: settings.get(key) for key in expected if settings.get(key) != expected[key]}
            found |= {name: changed} if changed else {}
    return found


def test_the_methods_have_the_papers_settings(monkeypatch):
    assert departures(r"seed0/[^/]*", monkeypatch) == {
        "seed0/critic_without_normalisation": {"normalize": "none"},
        "seed0/ranked_without_normalisation.jsonl": {"normalize": "none"},
        "seed0/critic_one_mean": {"normalize": "trajectory"},
        "seed0/ranked_seed.jsonl": {"reference": "seed"},
    }
    played = {name: words[words.index("--agent_model") + 1] for name, words in paper().items() if "test.jsonl" in name}
    agents = {played[f"seed0/{run}.test.jsonl"] for run in ("zero_shot", "single_turn_strong", "multi_turn_gpt-4o")}
    assert agents == {LLAMA_8B, LLAMA_70B, "gpt-4o"}


def test_the_stronger_agent_of_table_4_learns_from_the_weaker_ones_dialogues(monkeypatch):
    trained = ("rft", "dpo", "critic", "sweet")
    assert departures(r"seed0/strong/.*", monkeypatch) == {
        "seed0/strong/candidates.jsonl": {"model_id": LLAMA_70B},
        **{f"seed0/strong/{name}": {"pretrain": LLAMA_70B} for name in trained},
    }
    stages = {name: parsed(paper()[f"seed0/{name}"], monkeypatch)["zero_stage"] for name in ("sweet", "strong/sweet")}
    assert stages == {"sweet": 2, "strong/sweet": 3}  # the weights of 70B are too many for one GPU
    graded = parsed(paper()["seed0/strong/rewarded.jsonl"], monkeypatch)
    assert graded["input_path"] == parsed(paper()["seed0/trajectories.jsonl"], monkeypatch)["output_path"]


def test_the_papers_reference_of_the_ranking_is_the_seed_model_of_each_agent(tmp_path, monkeypatch):
    steps = planned(tmp_path, WORLD="paper", HUMAN_SERVER="n1:8000", REFERENCE="seed")
    ranked = {name: parsed(steps[name], monkeypatch) for name in ("seed0/ranked.jsonl", "seed0/strong/ranked.jsonl")}
    found = [(one["reference"], one["reference_model_id"]) for one in ranked.values()]
    assert found == [("seed", LLAMA_8B), ("seed", LLAMA_70B)]
    played = parsed(steps["seed0/act_sweet_2.test.jsonl"], monkeypatch)
    assert (played["critic_reference"], played["critic_reference_model_id"]) == ("seed", LLAMA_8B)


def test_dialogues_follow_the_published_protocol_but_the_single_turn_which_has_a_prompt_of_its_own(tmp_path):
    for steps, protocol in ((paper(), "released"), (planned(tmp_path, WORLD="paper", PROTOCOL="sweet_rl"), "sweet_rl")):
        played = {name: words for name, words in steps.items() if "--protocol" in words}
        assert len(played) > 20
        for name, words in played.items():
            assert words[words.index("--protocol") + 1] == ("sweet_rl" if "single_turn" in name else protocol), name
        graded = [words for words in steps.values() if any(word.endswith("evaluate_code.py") for word in words)]
        assert {"--paper_grader" in words for words in graded} == {protocol == "released"}


def test_training_flags_make_every_training_one_of_an_adapter(tmp_path, monkeypatch):
    flags = "--lora_rank 16 --learning_rate 5e-6 --zero_stage none"
    steps = planned(tmp_path, WORLD="paper", HUMAN_SERVER="n1:8000", LAUNCH="python", TRAIN_FLAGS=flags)
    trained = [parsed(words, monkeypatch) for words in steps.values() if "--save_path" in words]
    assert len(trained) > 20
    assert {(one["lora_rank"], one["learning_rate"], one["zero_stage"]) for one in trained} == {(16, 5e-6, None)}


def test_figure_3a_plays_2_to_32_candidates_and_figure_3b_takes_20_and_60_percent(monkeypatch):
    by_critic: dict[str, list[int]] = {}
    for name, words in paper().items():
        if found := re.fullmatch(r"seed0/act_(\w+)_(\d+)\.test\.jsonl", name):
            settings = parsed(words, monkeypatch)
            assert settings["candidates"] == int(found[2]) and settings["agent_model"] == LLAMA_8B
            by_critic.setdefault(found[1], []).append(settings["candidates"])
    assert by_critic == dict.fromkeys(("sweet", "value", "without_c", "judge"), [2, 4, 8, 16, 32])
    shares = [int(share[1]) for name in paper() if (share := re.fullmatch(r"seed0/first_(\d+)_tasks/sweet", name))]
    assert shares == [0.2 * BACKEND["collection"]["num_tasks"], 0.6 * BACKEND["collection"]["num_tasks"]]


def test_every_command_of_the_embedded_worlds_is_one_that_its_script_takes(tmp_path, monkeypatch):
    for world in ("quick", "hard"):
        for words in planned(tmp_path, WORLD=world, SEEDS="1").values():
            parsed(words, monkeypatch)


def test_dialogues_that_exist_are_used_instead_of_collecting(tmp_path):
    steps = planned(tmp_path, WORLD="paper", DIALOGUES="colbench/backend/offline")
    assert "seed0/trajectories.jsonl" not in steps
    assert "colbench/backend/offline" in steps["seed0/rewarded.jsonl"]


@pytest.mark.parametrize(
    ("variables", "said"),
    [({"WORLD": "mini_hard"}, "quick, hard or paper"), ({"OUT": "{0}/my runs"}, "OUT="), ({"OUT": "{0}/a+b"}, "OUT=")],
)
def test_a_world_that_is_none_and_a_folder_that_a_command_would_split_are_refused(variables, said, tmp_path):
    given = {"OUT": str(tmp_path / "out")} | {name: text.format(tmp_path) for name, text in variables.items()}
    done = doit("list", **given)
    assert done.returncode == 2 and said in done.stderr
    assert list(tmp_path.iterdir()) == []


def tasks_of(name: str, monkeypatch, **variables: str):
    """What a function of dodo.py returns."""
    monkeypatch.chdir(ROOT)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    return runpy.run_path("lab/reproduce/dodo.py")[name]()


def test_what_a_step_reads_in_the_folder_is_what_another_one_makes(tmp_path, monkeypatch):
    folder = {"OUT": str(tmp_path), "PROTOCOL_FILES": f"{tmp_path}/protocol"}
    steps = list(tasks_of("task_steps", monkeypatch, WORLD="paper", HOSTED="1", **folder))
    made = {path for step in steps for path in step["targets"]}
    read = {path for step in steps for path in step["file_dep"] if path.startswith(f"{tmp_path}/")}
    assert read and read <= made


@pytest.mark.slow
def test_steps_are_run_by_doit_and_not_repeated(tmp_path):
    tasks = tmp_path / "two.jsonl"
    tasks.write_text("".join(json.dumps(row) + "\n" for row in make_tasks(2, seed=3)))
    variables = {"SEEDS": "1", "OUT": str(tmp_path / "out"), "TRAIN_TASKS": str(tasks)}
    done = doit("steps:seed0/rewarded.jsonl", **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(read_rows(tmp_path / "out/seed0/rewarded.jsonl")) == 2 * 4
    again = doit("steps:seed0/rewarded.jsonl", **variables)
    assert {line[:2] for line in again.stdout.splitlines()} == {"--"}  # doit's mark for what is done
    tasks.write_text(tasks.read_text().splitlines(keepends=True)[0])
    refused = doit("steps:seed0/rewarded.jsonl", **variables)
    assert refused.returncode == 1 and "--overwrite" in refused.stdout + refused.stderr
