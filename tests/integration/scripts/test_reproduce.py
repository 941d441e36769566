"""reproduce.sh: with --paper every setting is the paper's, with --mini every command works and ends in tables."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest
import torch

from tests.integration.scripts.test_launchers import parsed
from tests.support.command_line import ROOT, call
from tests.unit.test_configs import BACKEND, LLAMA_8B, LLAMA_70B

TARGETS = ("table2", "table3", "table4", "figure3a", "figure3b")
PAPER_CONFIG = re.compile(r"configs/paper/backend/(\w+)\.yaml")


def reproduce(*words: str | Path, limit: int = 60) -> subprocess.CompletedProcess:
    environment = {**os.environ, "SWEET_RL_VENV": sys.prefix, "OMP_NUM_THREADS": "1"}
    command = ["bash", ROOT / "scripts" / "reproduce.sh", *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=limit)


@cache
def dry_run(*words: str) -> list[tuple[str, list[str]]]:
    """(what the step is called, its words) of every command."""
    done = reproduce(*words, "--dry_run")
    assert done.returncode == 0, done.stderr
    names = re.findall(r"^== (.*)\n\$ (.*)$", done.stdout, re.MULTILINE)
    assert len(names) == done.stdout.count("\n$ ") + done.stdout.startswith("$ ")
    return [(name, shlex.split(line)) for name, line in names]


def paper(target: str, monkeypatch, *options: str) -> list[tuple[str, list[str], dict]]:
    """(step, words, settings) of every command with the paper's settings; each is one that its script takes."""
    words = (target, "--paper", "--hostname", "n1", "--output", "/out", *options)
    return [(name, command, parsed(command, monkeypatch)) for name, command in dry_run(*words)]


def departures(target: str, monkeypatch, *options: str) -> dict[str, dict]:
    """By step, the settings that are not those of the paper's method."""
    found: dict[str, dict] = {}
    for name, words, settings in paper(target, monkeypatch, *options):
        config = PAPER_CONFIG.search(" ".join(words))
        expected = BACKEND[config[1]] if config else {}
        changed = {key: settings.get(key) for key in expected if settings.get(key) != expected[key]}
        if changed:
            found[name] = changed
    return found


def test_table_2_has_the_papers_settings_throughout(monkeypatch):
    assert departures("table2", monkeypatch, "--hosted") == {}
    agents = {settings.get("agent_model") for *_, settings in paper("table2", monkeypatch, "--hosted")}
    trained = {f"/out/seed0/{name}" for name in ("rft", "dpo", "sweet")}
    assert {LLAMA_8B, LLAMA_70B, "gpt-4o", "o1-mini"} | trained <= agents


def test_table_3_departs_only_in_what_each_row_is_about(monkeypatch):
    assert departures("table3", monkeypatch) == {
        "train the critic (critic_without_normalisation)": {"normalize": "none"},
        "rank candidates (without_normalisation)": {"normalize": "none"},
    }
    steps = {name: settings for name, _, settings in paper("table3", monkeypatch)}
    without = steps["train the critic (critic_without_c)"], steps["rank candidates (without_c)"]
    assert without[0]["dataset"] == "/out/seed0/pairs.jsonl" and without[1]["no_prompt"] is True
    assert steps["train the critic (critic)"]["dataset"] == "/out/seed0/pairs_with_c.jsonl"
    assert "no_prompt" not in steps["rank candidates"]
    head = steps["rank candidates (regression_head)"]
    assert head["critic_type"] == "value" and head["model_id"] == "/out/seed0/critic_regression_head"
    policies = [settings for name, settings in steps.items() if name.startswith("train SWEET-RL")]
    assert len(policies) == 4 and len({policy["dataset"] for policy in policies}) == 4


def test_table_4_departs_only_in_the_agent_and_learns_from_the_weaker_ones_dialogues(monkeypatch):
    assert departures("table4", monkeypatch) == {
        "sample candidates": {"model_id": LLAMA_70B},
        "rank candidates": {"reference_model_id": LLAMA_70B},
        **{f"train {name}": {"pretrain": LLAMA_70B}
           for name in ("rejection fine-tuning", "multi-turn DPO", "the critic (critic)", "SWEET-RL")},
    }  # fmt: skip
    steps = {name: settings for name, _, settings in paper("table4", monkeypatch)}
    assert steps["collect"]["agent_model"] == LLAMA_8B
    assert steps["grade, pair"]["input_path"] == steps["collect"]["output_path"]
    played = steps["evaluate zero_shot: dialogues"]
    assert (played["agent_model"], played["agent_hostname"]) == (LLAMA_70B, "n1")


def test_figure_3a_plays_1_to_32_candidates_by_each_critic(monkeypatch):
    assert departures("figure3a", monkeypatch) == {}
    played = [s for name, _, s in paper("figure3a", monkeypatch) if re.match(r"evaluate act_[a-z].*dialogues", name)]
    by_critic: dict[tuple, list[int]] = {}
    for settings in played:
        critic = settings.get("critic_type", "log_ratio"), settings.get("critic_no_prompt", False)
        by_critic.setdefault(critic, []).append(settings["candidates"])
        assert settings["agent_model"] == LLAMA_8B
    critics = [("log_ratio", False), ("judge", False), ("value", False), ("log_ratio", True)]
    assert by_critic == dict.fromkeys(critics, [2, 4, 8, 16, 32])


def test_figure_3b_takes_20_60_and_100_percent_of_the_dialogues(monkeypatch):
    assert departures("figure3b", monkeypatch) == {}
    steps = paper("figure3b", monkeypatch)
    tasks, each = BACKEND["collection"]["num_tasks"], BACKEND["collection"]["best_of_n"]
    graded = [settings.get("num_tasks") for name, _, settings in steps if name == "grade, pair"]
    assert graded == [None, 0.2 * tasks, 0.6 * tasks]
    (runs,) = [settings["runs"] for name, _, settings in steps if name == "results: figure3b"]
    assert all(f"SWEET-RL@{share * tasks * each:.0f}=" in runs for share in (0, 0.2, 0.6, 1))


def test_what_the_targets_share_is_made_once_and_rounds_build_on_each_other(monkeypatch):
    words = ("table2", "table3", "--mini", "--seeds", "2", "--iterations", "3", "--output", "/out")
    steps = [parsed(command, monkeypatch) for _, command in dry_run(*words)]
    for script, name in (("train_dpo", "save_path"), ("sample_best_of_n", "output_path")):
        made = [parsed(w, monkeypatch)[name] for _, w in dry_run(*words) if f"scripts/{script}.py" in w]
        assert len(made) == len(set(made)) > 1
    pretrained = {s["save_path"]: s["pretrain"] for s in steps if s.get("save_path", "").endswith("/sweet")}
    assert pretrained == {
        f"/out/seed{seed}{folder}/sweet": before
        for seed in (0, 1)
        for folder, before in (
            ("", "sweet_rl/models/packaged/mini"),
            ("/round2", f"/out/seed{seed}/sweet"),
            ("/round3", f"/out/seed{seed}/round2/sweet"),
        )
    }


def test_released_dialogues_are_used_instead_of_collecting():
    options = ("--trajectories", "/t.jsonl", "--response_template", "<|assistant|>", "--output", "/out")
    for target in ("table2", "table4"):
        names = [name for name, _ in dry_run(target, "--paper", *options)]
        assert "collect" not in names and "grade, pair" in names


@pytest.mark.parametrize("words, said", [
    ([], "no target"), (["table9"], "table9"), (["table2", "--seeds", "0"], "--seeds"),
    (["table2", "--hostname", "n1"], "--hostname"), (["table2", "--seeds"], "--seeds"),
    (["table2", "--paper", "--odd", "1"], "--odd"), (["table2", "--paper", "--dry_run", "--seed", "1"], "--seeds N"),
    (["credit", "--paper", "--dry_run"], "--mini"),
])  # fmt: skip
def test_a_bad_option_is_one_message(words, said):
    done = reproduce(*words)
    assert done.returncode == 2 and said in done.stderr and done.stderr.startswith("reproduce.sh: "), done.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="not in a virtual environment: the script would make one")
def test_every_mini_command_works_and_ends_in_tables_figures_and_a_page(tmp_path, monkeypatch):
    """The commands of the smoke run, one after the other in this process, which saves each its imports."""
    pytest.importorskip("matplotlib")
    out, page = tmp_path / "out", tmp_path / "page"
    words = ("--mini", "--smoke", "--seeds", "1", "--output", str(out))
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    torch.set_num_threads(1)  # as the script does
    for name, command in dry_run("all", *words, "--iterations", "2", "--page", str(page)):
        before, started = os.times(), time.monotonic()
        done = call(f"../{command[1]}", *command[2:])
        assert done.code == 0, f"{name}: {shlex.join(command)}\n{done.err[-2000:]}"
        spent = os.times()
        flags = dict(zip(command, command[1:], strict=False))
        row = {
            "step": name, "output": flags.get("--output_path", flags.get("--save_path", "")), "gpus": 0, "status": 0,
            "seconds": time.monotonic() - started, "user_seconds": spent.user - before.user,
            "system_seconds": spent.system - before.system, "command": shlex.join(command),
        }  # fmt: skip
        place = Path(row["output"]).parent if row["output"] else out
        with open(place / "times.jsonl", "a", encoding="utf-8") as times:
            times.write(json.dumps(row) + "\n")
    for target in (*TARGETS, "credit"):
        assert {path.suffix for path in (out / "results").glob(f"{target}.*")} >= {".json", ".md", ".png", ".svg"}
    runs = {row["name"]: row for row in json.loads((out / "results" / "table2.json").read_text())["runs"]}
    assert list(runs) == [
        *("single turn", "zero-shot", "rejection fine-tuning", "multi-turn DPO", "SWEET-RL", "SWEET-RL (round 2)")
    ]
    assert runs["single turn"]["turns"] == 1
    text = (page / "README.md").read_text()
    for part in ("reproduce.sh table2 --mini --seeds 1 --smoke", "![", "seeds 0", "torch", "CPU minutes", "## Times"):
        assert part in text
    assert all((page / name).is_file() for name in re.findall(r"!\[.*?\]\((.*?)\)", text))
