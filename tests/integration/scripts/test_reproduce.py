"""reproduce.sh: with --paper every setting is the paper's, with --mini every command works and ends in tables, also in
jobs of Slurm and after kills."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from unittest import mock

import pytest
import torch

from sweet_rl.evaluation.budget import cost_of, seconds_by_output
from sweet_rl.pipeline import launch
from sweet_rl.pipeline.ledger import read_ledger
from tests.integration.scripts.test_launchers import parsed
from tests.support.command_line import ROOT, Result, call
from tests.support.slurm_cluster import slurm_cluster
from tests.unit.test_configs import BACKEND, LLAMA_8B, LLAMA_70B

dodo = pytest.importorskip("workflow.dodo", reason="needs: pip install -e '.[workflow]'")
tables = pytest.importorskip("workflow.tables")

TARGETS = ("table2", "table3", "table4", "figure3a", "figure3b")
PAPER_CONFIG = re.compile(r"configs/paper/backend/(\w+)\.yaml")


def reproduce(*words: str | Path) -> Result:
    """Calls workflow/dodo.py in this process, which goes back to its folder."""
    out, err, folder = io.StringIO(), io.StringIO(), os.getcwd()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), mock.patch.dict(os.environ):
        try:
            code = dodo.main([str(word) for word in words])
        except SystemExit as end:
            code = end.code
        finally:
            os.chdir(folder)
    return Result(code, out.getvalue(), err.getvalue())


@cache
def dry_run(*words: str) -> list[tuple[str, list[str]]]:
    """(what the step is called, its words) of every command."""
    done = reproduce(*words, "--dry_run")
    assert done.code == 0, done.err
    names = re.findall(r"^== (.*)\n\$ (.*)$", done.out, re.MULTILINE)
    assert len(names) == done.out.count("\n$ ") > 0
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


def test_the_human_is_served_for_every_step_that_asks_it_or_samples_from_it(tmp_path):
    words = ["table4", "--paper", "--launcher", "slurm", "--output", str(tmp_path)]
    tasks = dodo.tasks(*dodo.prepare(dodo.parse([*words, "--train_tasks", "a", "--test_tasks", "b"])))
    served = [Path(task["basename"]).name for task in tasks if task.get("setup")]
    assert {re.sub(r"\.\d+-of-\d+", "", name) for name in served} == {
        *("trajectories.jsonl", "candidates.jsonl"),
        *(f"{run}.test.jsonl" for run in ("zero_shot", "rft", "dpo", "sweet")),
    }


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
    assert sorted(graded, key=str) == [0.2 * tasks, 0.6 * tasks, None]
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


def test_the_hard_world_has_its_own_tasks_agent_and_settings(monkeypatch):
    quick, hard = (
        [parsed(words, monkeypatch) for _, words in dry_run("table3", "--mini", "--output", "/out", *world)]
        for world in ([], ["--world", "hard"])
    )
    assert [step.get("save_path") for step in quick] == [step.get("save_path") for step in hard]
    assert [step["world"] for step in hard if "num_train" in step] == ["hard"]
    for steps, name in ((quick, "mini"), (hard, "mini_hard")):
        agents = {step["pretrain"] for step in steps if "pretrain" in step}
        assert agents == {f"sweet_rl/models/packaged/{name}"}


def test_a_pretrained_agent_is_made_first_and_has_the_rows_about_length(monkeypatch, tmp_path):
    steps = [(name, parsed(words, monkeypatch)) for name, words in dry_run(
        "table2", "table3", "--mini", "--seeds", "1", "--pretrained", str(tmp_path), "--output", "/out")]  # fmt: skip
    assert [s["pretrain"] for _, s in steps if s.get("save_path") == "/out/agent"] == [str(tmp_path)]
    trained = {s["save_path"]: s for name, s in steps if "save_path" in s and s["save_path"] != "/out/agent"}
    assert {s["pretrain"] for s in trained.values()} == {"/out/agent"}
    assert all(s["bf16"] and s["lora_rank"] for s in trained.values())
    (runs,) = [settings["runs"] for name, settings in steps if name == "results: table3"]
    assert [run.partition("=")[0] for run in runs.split(",")] == list(tables.LENGTHS)


def test_every_method_goes_its_own_rounds_on_equally_many_dialogues(monkeypatch):
    steps = [(name, parsed(words, monkeypatch)) for name, words in dry_run("online", "--mini", "--seeds", "1")]
    agents = {s["save_path"]: s["pretrain"] for _, s in steps if "save_path" in s}
    for run in ("rft", "dpo", "grpo", "grpo_credit", "sweet"):
        folders = ["", *(f"round{n}{'' if run == 'sweet' else f'_{run}'}/" for n in (2, 3, 4))]
        made = [f"runs/reproduce-mini/seed0/{folder}{run}" for folder in folders]
        assert [agents[path] for path in made] == ["sweet_rl/models/packaged/mini", *made[:-1]]
        collected = [s["agent_model"] for name, s in steps if name == "collect" and s["agent_model"] in made]
        assert collected == made[:-1]
    (runs,) = [settings["runs"] for name, settings in steps if name == "results: online"]
    assert re.findall(r"GRPO@(\d+)=", runs) == ["0", "200", "400", "600", "800"]
    assert "GRPO with turn credit@800=" in runs


def test_the_study_of_credit_scores_the_same_candidates_by_critics_of_more_and_more_dialogues(monkeypatch):
    steps = [(name, parsed(words, monkeypatch)) for name, words in dry_run(
        "credit_study", "--mini", "--seeds", "1", "--output", "/out"
    )]  # fmt: skip
    shares = dodo.CONFIG["sizes"]["mini"]["study_shares"]
    studies = [settings for name, settings in steps if name == "study of credit"]
    assert {settings["input_path"] for settings in studies} == {"/out/seed0/candidates.jsonl"}
    untrained, *trained = studies
    assert untrained["reply"] is True and "reference_model_id" not in untrained
    assert [settings["model_id"] for settings in trained] == [
        f"/out/seed0/study/first_{tasks}_tasks/critic" for tasks in shares
    ]
    assert {settings["reference_model_id"] for settings in trained} == {untrained["model_id"]}
    graded = [settings for name, settings in steps if name == "grade, pair" and "study" in settings["output_path"]]
    assert {settings["input_path"] for settings in graded} == {"/out/seed0/study/trajectories.jsonl"}
    assert [settings["num_tasks"] for settings in graded] == list(shares)
    made = next(settings for name, settings in steps if name == "tasks" and "study" in settings["output_dir"])
    assert made["num_train"] >= max(shares)
    (table,) = [settings for name, settings in steps if name == "results: credit_study"]
    names = [entry.partition("=")[0] for entry in table["studies"].split(",")]
    assert names == ["0", *map(str, shares.values())]


def test_released_dialogues_are_used_instead_of_collecting():
    options = ("--trajectories", "/t.jsonl", "--response_template", "<|assistant|>", "--output", "/out")
    for target in ("table2", "table4"):
        names = [name for name, _ in dry_run(target, "--paper", *options)]
        assert "collect" not in names and "grade, pair" in names


def test_names_on_the_hub_stay_names_and_all_else_is_a_path_seen_from_the_folder_of_the_call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hub = {"train_tasks": "colbench/backend/train", "test_tasks": "hf://datasets/owner/name@v1/test.jsonl"}

    def read(*options: str) -> set[str]:
        out = reproduce("table2", "--paper", "--output", "colbench/out", *options, "--dry_run").out
        assert f"--output_path {tmp_path}/colbench/out/" in out
        return set(re.findall(r"--input_path (\S+)", out)) - set(re.findall(r"--output_path (\S+)", out))

    words = [word for name, value in hub.items() for word in (f"--{name}", value)]
    assert read(*words) == {*hub.values()}
    assert read("--trajectories", "colbench/backend/offline", *words) == {"colbench/backend/offline", hub["test_tasks"]}
    (tmp_path / "colbench" / "backend").mkdir(parents=True)
    (tmp_path / "colbench" / "backend" / "train").touch()
    here = {f"{tmp_path}/colbench/backend/train", f"{tmp_path}/test.jsonl"}
    assert read("--train_tasks", hub["train_tasks"], "--test_tasks", "test.jsonl") == here


def test_the_dry_run_shows_a_setting_once_with_the_value_that_counts():
    shown = reproduce("table2", "--paper", "--num_tasks", "8", "--dry_run").out
    collection = shown.split("== collect")[1].split("==")[0]
    assert "--num_tasks 8" in collection and "num_tasks: 5000" not in collection
    assert "    temperature: 1.0" in collection


def test_all_beside_another_target_is_still_all_of_them():
    made = {name for name, _ in dry_run("all", "pages", "--mini", "--seeds", "1")}
    assert {"results: table2", "results: table4", "results: credit", "results: pages"} <= made


def test_only_the_gpus_that_are_visible_are_used(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    out = reproduce("table2", "--paper", "--dry_run").out
    assert "torchrun --nproc_per_node 2 " in out and "nproc_per_node 8" not in out


@pytest.mark.parametrize("words, said", [
    (["table9"], "table9"), (["table2", "--seeds", "0"], "--seeds"), (["list", "table9"], "table9"),
    (["table2", "--hostname", "n1"], "--hostname"), (["table2", "--seeds"], "--seeds"),
    (["table2", "--paper", "--odd", "1"], "--odd"), (["table2", "--paper", "--dry_run", "--seed", "1"], "--seed"),
    (["credit", "--paper", "--dry_run"], "--mini"), (["table2", "--paper"], "--hostname is missing"),
    (["settings", "table2"], "a call of its own"), (["settings", "--paper"], "settings"),
    (["settings", "online"], "a call of its own"),
    (["settings", "--try_seeds", "0"], "--try_seeds"), (["table2", "--seeds", "101"], "--seeds"),
    (["table2", "--settings", "/none.json"], "/none.json"), (["table2", "--output", "/a,b"], "/a,b"),
    (["online", "--paper", "--dry_run"], "--mini"), (["table2", "--pretrained", "m", "--world", "hard"], "quick"),
    (["figure3a", "--pretrained", "m"], "not figure3a"), (["table2", "--profile", "/none.yaml"], "/none.yaml"),
])  # fmt: skip
def test_a_bad_option_is_one_message_and_exit_code_2(words, said):
    done = reproduce(*words)
    assert done.code == 2 and said in done.err.splitlines()[-1] and "Traceback" not in done.err


def test_the_command_of_the_readme_calls_the_workflow(tmp_path):
    """Through bash, in the environment of this test instead of a new one."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "activate").write_text(f"PATH={Path(sys.executable).parent}:$PATH\n")
    command = ["bash", ROOT / "scripts" / "reproduce.sh", "table4", "--smoke", "--dry_run", "--output", "here"]
    environment = {**os.environ, "SWEET_RL_VENV": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"--save_path {tmp_path}/here/seed0/strong/sweet" in done.stdout


SMOKE = ("--mini", "--smoke", "--seeds", "1")
STEPS = ("seed0/ranked_untrained.jsonl", "seed0/rft.graded.jsonl", "table2", "table3")  # with all that they need


def test_what_is_missing_is_listed_and_a_step_tells_its_command(tmp_path):
    shown = [
        subprocess.run(
            [sys.executable, ROOT / "workflow" / "dodo.py", *words, *SMOKE, "--output", tmp_path / "out"],
            capture_output=True, text=True,
        ).stdout
        for words in (("list", "table2"), ("info", "seed0/critic"))
    ]  # fmt: skip
    assert re.search(r"^R seed0/critic +train the critic", shown[0], re.MULTILINE)
    assert "scripts/train_dpo.py" in shown[1] and "- seed0/rewarded.jsonl" in shown[1]
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def smoke(tmp_path_factory) -> Path:
    """Everything of a smoke run."""
    place = tmp_path_factory.mktemp("smoke")
    run_here(place / "out", "all", "--iterations", "2", "--page", str(place / "page"))
    return place


def run_here(out: Path, *words: str) -> None:
    """Run the commands of a smoke run one after the other in this process, which saves their imports."""
    pytest.importorskip("matplotlib")
    torch.set_num_threads(1)  # as the workflow does
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setenv("HF_HUB_OFFLINE", "1")
        for name, command in dry_run(*words, *SMOKE, "--output", str(out)):
            started = time.monotonic()
            done = call(f"../{command[1]}", *command[2:])
            assert done.code == 0, f"{name}: {shlex.join(command)}\n{done.err[-2000:]}"
            flags = dict(zip(command, command[1:], strict=False))
            spent, made = time.monotonic() - started, flags.get("--output_path", flags.get("--save_path", ""))
            row = {"step": name, "output": made, "gpus": 0, "status": 0, "command": shlex.join(command)}
            row |= {"seconds": spent, "user_seconds": spent, "system_seconds": 0}
            folder = Path(made).parent if made else out
            with open(folder / "times.jsonl", "a", encoding="utf-8") as times:
                times.write(json.dumps(row) + "\n")


@pytest.mark.slow
def test_every_mini_command_works_and_ends_in_tables_figures_and_a_page(smoke):
    out, page = smoke / "out", smoke / "page"
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


@pytest.mark.slow
def test_settings_are_tried_and_logged_also_those_that_fail(tmp_path, monkeypatch):
    """1. One try fails; the other one is chosen. 2. The same command again runs only what failed. 3. A table with the
    chosen settings says so. 4. Only an evaluation on the test tasks is noted in the ledger. The configurations are of a
    world of the user's own."""
    configs, out = tmp_path / "configs", tmp_path / "out"
    shutil.copytree(ROOT / "configs" / "mini", configs)
    tries = "imitation: {run: rft, settings: [rft.learning_rate], tries: [[-1.0], [2.0e-4]]}"
    (configs / "tries.yaml").write_text(tries)
    monkeypatch.setitem(dodo.CONFIG["sizes"]["smoke"], "configs", str(configs))
    assert reproduce("settings", *SMOKE, "--output", out).code == 1
    log = json.loads((out / "results" / "settings.json").read_text())
    failed, chosen = log["methods"]["imitation"]["tries"]
    assert (failed["status"], chosen["status"], chosen["chosen"]) == ("failed", "finished", True)  # 1
    assert chosen["cpu_seconds"] > 1 and log["validation_tasks"] == 8
    assert "learning_rate" in (out / "seed100" / "try1_rft" / "logs" / "rft.log").read_text()
    ran = len((out / "seed100" / "try2_rft" / "times.jsonl").read_text().splitlines())
    assert reproduce("settings", *SMOKE, "--output", out).code == 1
    assert len((out / "seed100" / "try2_rft" / "times.jsonl").read_text().splitlines()) == ran  # 2
    assert json.loads((out / "results" / "settings.json").read_text())["methods"]["imitation"]["tries"][1] == chosen
    assert not (out / "results" / "test_ledger.jsonl").exists()
    options = ("--settings", str(out / "results" / "settings.json"), "--output", str(out))
    steps = dict(dry_run("table2", *SMOKE, *options))
    words = steps["train rejection fine-tuning"]
    assert words[words.index("--learning_rate") + 1] == "0.0002" and "--settings" in steps["results: table2"]  # 3
    assert reproduce("seed0/zero_shot.graded.jsonl", "table2", *SMOKE, *options).code == 0
    assert read_ledger(out / "results" / "test_ledger.jsonl").keys() == {"zero_shot"}  # 4


@pytest.mark.slow
def test_the_online_rounds_end_in_a_table_and_a_curve(tmp_path, monkeypatch):
    methods = {"zero-shot": "zero_shot", "GRPO with turn credit": "grpo_credit"}  # of most steps; all are planned above
    monkeypatch.setattr(tables, "ONLINE", methods)
    monkeypatch.setattr(tables, "ONLINE_STEPS", ())
    run_here(tmp_path, "online", "--iterations", "2")
    assert {path.suffix for path in (tmp_path / "results").glob("online.*")} >= {".json", ".md", ".png", ".svg"}
    names = [row["name"] for row in json.loads((tmp_path / "results" / "online.json").read_text())["runs"]]
    assert names == ["GRPO with turn credit@0", "GRPO with turn credit@64", "GRPO with turn credit@128"]


class Near(float):
    """A number of a record; equal to any that differs by less than 0.001."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and abs(float(self) - float(other)) < 1e-3

    __hash__ = None


def artefacts(out: Path) -> dict[str, object]:
    """The records and weights of a seed's folder, without the shards; numbers with a fraction are `Near`, because what
    is computed beside a text changes its log-probs a little."""
    found: dict[str, object] = {}
    for path in sorted((out / "seed0").rglob("*")):
        name = str(path.relative_to(out))
        if path.suffix == ".safetensors":
            found[name] = path.read_bytes()
        elif path.suffix == ".jsonl" and "-of-" not in name and path.name not in ("times.jsonl", "training_log.jsonl"):
            text = path.read_text().replace(str(out), "OUT")
            lines = text.splitlines()
            found[name] = [json.loads(line, parse_float=Near) for line in lines]
    return found


@pytest.mark.slow
def test_jobs_of_slurm_with_shards_end_in_the_same_records_and_weights(smoke, tmp_path, monkeypatch):
    """1. From the tasks to ranks and a policy's evaluation they are the same. 2. The cost of shards is counted.
    3. The same command again passes over everything, also without Slurm."""
    out, profile = tmp_path / "out", tmp_path / "profile.yaml"
    profile.write_text("all: {mem: 50M}\ndialogues: {shards: 2}\ncandidates: {shards: 2}\nranking: {shards: 2}\n")
    monkeypatch.setattr(launch.Slurm.__init__, "__defaults__", (0.5,))
    with slurm_cluster(tmp_path / "slurm"):
        done = reproduce(*STEPS, *SMOKE, "--output", out, "--launcher", "slurm", "--profile", profile)
        assert done.code == 0
    whole, ours = artefacts(smoke / "out"), artefacts(out)
    assert {"seed0/ranked_untrained.jsonl", "seed0/rft/model.safetensors", "seed0/rft.graded.jsonl"} <= ours.keys()
    assert ours.keys() <= whole.keys()
    assert [name for name in ours if ours[name] != whole[name]] == []  # 1
    assert (out / "seed0" / "trajectories.2-of-2.jsonl").is_file()
    monkeypatch.chdir(ROOT)
    cost = cost_of(out / "seed0" / "rft.graded.jsonl", seconds_by_output([out / "seed0" / "times.jsonl"]))
    assert cost["dialogues"] == 64 and cost["cpu_seconds"] > 1  # 2
    command = [sys.executable, ROOT / "workflow" / "dodo.py", *STEPS, *SMOKE, "--output", out]
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert again.returncode == 0
    *steps, _where = again.stdout.splitlines()
    assert {line[:2] for line in steps} == {"--"}  # 3: doit's mark for what is done


@pytest.mark.slow
def test_an_engine_and_a_step_that_are_killed_leave_nothing_that_differs(smoke, tmp_path):
    """The engine is killed while dialogues are played, then the step that plays them, then both are started again."""
    out = tmp_path / "out"
    command = [sys.executable, ROOT / "workflow" / "dodo.py", "seed0/rewarded.jsonl", "table2", *SMOKE, "--output", out]
    dialogues = out / "seed0" / "trajectories.jsonl"

    def killed(which: str) -> None:
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, start_new_session=True) as engine:
            before = dialogues.stat().st_size if dialogues.exists() else 0
            while not (dialogues.exists() and dialogues.stat().st_size > before):
                assert engine.poll() is None, "it ended before it could be killed"
                time.sleep(0.005)
            if which == "engine":
                engine.kill()
            for pid in players(out) if which == "step" else ():
                os.kill(pid, signal.SIGKILL)
        assert engine.returncode == (-signal.SIGKILL if which == "engine" else 1)

    killed("engine")
    assert players(out)  # goes on, and keeps a second one from starting
    for pid in players(out):
        os.kill(pid, signal.SIGKILL)
    killed("step")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    whole, ours = artefacts(smoke / "out"), artefacts(out)
    assert len(ours) == 4 and all(ours[name] == whole[name] for name in ours)


def players(out: Path) -> list[int]:
    """The processes that play the training dialogues."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_text().split("\0")
            made = str(out / "seed0" / "trajectories.jsonl")
            if words[1:2] == ["scripts/simulate_interactions.py"] and made in words:
                found.append(int(folder.name))
    return found
