"""The recipes for GPUs: which GPUs each step has and when the human's server runs.

Programs that stand for vllm, torchrun, python and nvidia-smi note what they are given. The one for vllm serves HTTP.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.command_line import ROOT

# `script` runs once the command is noted. Commands of the recipe itself (python -c) are run; a shard has its number.
PROGRAM = """#!/bin/bash
name=$(basename "$0")
[ "$1" = -c ] && exec {python} -S "$@"
[ "$*" = "-m pip check" ] && echo "sweet-rl has requirement x" && exit 1
for word; do case "$word" in *.py) break ;; esac; done
echo "$(basename "$word") ${{CUDA_VISIBLE_DEVICES-all}} $name $*" >>{place}/events
{script}
case "$*" in *--shard*)
    while [ $# -gt 0 ]; do case "$1" in --output_path) out=$2 ;; --shard) shard=$2 ;; esac; shift; done
    echo "$shard" >"$out"
esac
"""
# It has a child that does not end by itself, as vLLM has.
VLLM = """#!{python} -S
import os, signal, subprocess, sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer

def note(text):
    with open("{place}/events", "a") as events:
        events.write(f"{{text}} {{os.environ.get('CUDA_VISIBLE_DEVICES', 'all')}} {{' '.join(sys.argv[1:])}}\\n")

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/v1/models" else 404)
        self.end_headers()
    def log_message(self, *words):
        pass

def end(*_):
    note("server_off")
    sys.exit()

signal.signal(signal.SIGTERM, end)
signal.alarm(1200)  # after a test that has failed
child = subprocess.Popen(["sleep", "1200"])
open("{place}/child", "w").write(str(child.pid))
note("server_on")
{script}
HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""
ENDED_BY = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # which nohup and a shell's & leave ignored
TRAINED = ["train_dpo.py", "train_sft.py", "train_value.py"]


class Recipe:
    """A recipe in a folder of its own, with the stand-ins first in its PATH."""

    def __init__(self, place: Path, name: str = "run_backend", gpus: int = 8, step: str = "", server: str = ""):
        self.place, self.out, self.script = place, place / "out", ROOT / "scripts" / f"{name}.sh"
        (place / "bin").mkdir(parents=True)
        values = {"python": sys.executable, "place": place}
        for program in ("python", "torchrun"):
            self._program(program, PROGRAM.format(script=step, **values))
        self._program("hf", f'#!/bin/bash\necho "$*" >>{place}/downloads\n')
        self._program("vllm", VLLM.format(script=server, **values))
        self._program("nvidia-smi", f"#!/bin/bash\nseq 0 {gpus - 1}\n")

    def _program(self, name: str, text: str) -> None:
        path = self.place / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def start(self, *words: str, **variables: str) -> subprocess.Popen:
        """Start it as the first of a process group, which Ctrl-C reaches."""
        hidden = {"CUDA_VISIBLE_DEVICES", "HUMAN_SERVER", "HUMAN_GPUS", "LAUNCH"}
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        environment |= {"PATH": f"{self.place}/bin:{os.environ['PATH']}", "OUT": str(self.out), **variables}
        pipe = subprocess.PIPE
        return subprocess.Popen(
            ["bash", self.script, *words], env=environment, cwd=self.place, stdout=pipe, stderr=pipe, text=True,
            start_new_session=True, preexec_fn=lambda: [signal.signal(one, signal.SIG_DFL) for one in ENDED_BY],
        )  # fmt: skip

    def run(self, *words: str, **variables: str) -> tuple[int, str, str]:
        """Its exit code, what it prints, and its errors."""
        with self.start(*words, **variables) as process:
            try:
                out, err = process.communicate(timeout=900)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        return process.returncode, out, err

    def events(self) -> list[tuple[str, str, str]]:
        """(script or server_on or server_off, GPUs, command) of all, in their order."""
        path = self.place / "events"
        lines = path.read_text().splitlines() if path.exists() else []
        return [tuple(line.split(" ", 2)) for line in lines]

    def server_is_gone(self) -> bool:
        """Whether the server has ended, and its child too."""
        ended = [name for name, *_ in self.events() if name.startswith("server")][-1] == "server_off"
        return ended and not alive(self.place / "child")


def alive(process: Path) -> bool:
    """Whether the process whose id the file has is alive. One that has ended may wait for its parent as a zombie."""
    words = ["ps", "-o", "stat=", "-p", process.read_text().strip()]
    return subprocess.run(words, capture_output=True, text=True).stdout.strip("Z+\n") != ""


def until(holds, process: subprocess.Popen) -> None:
    end = time.monotonic() + 900
    while not holds():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("name", ["run_backend", "run_frontend"])
def test_the_human_has_its_gpus_during_dialogues_and_trainings_have_all_of_them(name, tmp_path):
    recipe = Recipe(tmp_path, name)
    code, printed, errors = recipe.run(HUMAN_GPUS="0,1,2,3", HUMAN="some/human")
    assert code == 0 and not errors, errors
    events = recipe.events()
    graded, critic = "evaluate_code.py", "train_dpo.py"
    if name == "run_frontend":
        graded, critic = "evaluate_html.py", "train_value.py"
    order = [(script, gpus) for script, gpus, _ in events]
    assert order[:4] == [
        ("server_on", "0,1,2,3"), ("simulate_interactions.py", "4,5,6,7"), ("server_off", "0,1,2,3"), (graded, "all"),
    ]  # fmt: skip
    assert order[4:7] == [(critic, "all"), ("train_sft.py", "all"), ("train_dpo.py", "all")]
    policies = 2 if name == "run_backend" else 1  # by PMI too
    assert order[7] == ("sample_best_of_n.py", "all")
    ranked = 8 + 8 * policies
    for first in range(8, ranked, 8):
        parts = events[first : first + 8]
        assert {script for script, *_ in parts} == {"rank_best_of_n.py"}
        shards = {gpus: command.split("--shard ")[1].split()[0] for _, gpus, command in parts}
        assert shards == {str(gpu): f"{gpu + 1}/8" for gpu in range(8)}
    rows = (recipe.out / "ranked.jsonl").read_text().splitlines()
    assert rows == [f"{number}/8" for number in range(1, 9)]  # the parts one after the other
    by_turns = policies * [("generate_random_pairs_from_ranks.py", "all"), ("train_dpo.py", "all")]
    end = ranked + len(by_turns)
    assert order[ranked:end] == by_turns
    played = (3 + policies) * [("simulate_interactions.py", "4,5,6,7"), (graded, "all")]
    assert order[end:] == [("server_on", "0,1,2,3"), *played, ("server_off", "0,1,2,3"), ("compare_runs.py", "all")]
    served = {command for script, _, command in events if script == "server_on"}
    assert all(command.startswith("serve some/human") for command in served)
    assert all("--tensor-parallel-size 4" in command for command in served)
    ports = [command.split()[-1] for script, _, command in events if script == "server_on"]
    asked = [command.split("--hostname ")[1].split()[0] for script, _, command in events if "simulate" in script]
    assert asked == [f"127.0.0.1:{port}" for port in (ports[0], *(3 + policies) * ports[1:])]
    launched = [command for script, _, command in events if script in TRAINED]
    processes = [command.split("--nproc_per_node ")[1].split()[0] for command in launched]
    assert processes == ["gpu"] * (3 + policies)
    assert recipe.server_is_gone()
    if name == "run_frontend":
        assert '--limit-mm-per-prompt {"image":2}' in served.pop()


def test_a_server_elsewhere_takes_no_gpu_and_a_launcher_of_ones_own_trains_one_model_after_the_other(tmp_path):
    slow = 'case "$*" in *--save_path*/critic*) sleep 0.3; echo "critic_ended - -" >>events ;; esac'
    recipe = Recipe(tmp_path, step=slow.replace(">>events", f">>{tmp_path}/events"))
    code, _, errors = recipe.run(HUMAN_SERVER="node1:8000", LAUNCH="torchrun --nnodes 2", TRAIN_FLAGS="--zero_stage 3")
    assert code == 0, errors
    events = recipe.events()
    assert {gpus for script, gpus, _ in events if script != "rank_best_of_n.py"} == {"all", "-"}
    assert all("--hostname node1:8000" in command for script, _, command in events if "simulate" in script)
    trained = [script for script, *_ in events if script in (*TRAINED, "critic_ended")]
    assert trained == ["train_dpo.py", "critic_ended", "train_sft.py", *3 * ["train_dpo.py"]]
    launched = [command for script, _, command in events if script in TRAINED]
    assert all(c.startswith("torchrun --nnodes 2 ") and c.endswith(" --zero_stage 3") for c in launched)


def test_a_try_on_a_few_tasks_takes_as_many_for_training_grading_and_the_test(tmp_path):
    recipe = Recipe(tmp_path)
    assert recipe.run(HUMAN_SERVER="n:1", NUM_TASKS="16", DIALOGUES="colbench/backend/offline")[0] == 0
    limited = [script for script, _, command in recipe.events() if "--num_tasks 16" in command]
    assert limited == ["evaluate_code.py", *5 * ["simulate_interactions.py"]]


@pytest.mark.parametrize("name", ["run_backend", "run_frontend"])
def test_the_recipes_of_the_paper_follow_the_published_protocol_unless_another_one_is_wanted(name, tmp_path):
    for variables, flags in (
        ({"PROTOCOL_FILES": "files"}, f"--protocol released --protocol_files {tmp_path}/released/files"),
        ({"PROTOCOL": "sweet_rl"}, "--protocol sweet_rl"),
    ):
        recipe = Recipe(tmp_path / variables.get("PROTOCOL", "released"), name)  # paths are seen from this folder
        code, _, errors = recipe.run(HUMAN_SERVER="n:1", **variables)
        assert code == 0, errors
        played = [command for script, _, command in recipe.events() if script.startswith("simulate")]
        graded = [command for script, _, command in recipe.events() if script.startswith("evaluate")]
        agents = 5 if name == "run_backend" else 4
        assert len(played) == 1 + agents and len(graded) == 1 + agents
        assert all(flags in command for command in played), played[0]
        assert {"--paper_grader" in command for command in graded} == {"PROTOCOL" not in variables}


def test_the_server_is_not_started_for_dialogues_that_are_complete(tmp_path):
    recipe = Recipe(tmp_path)
    recipe.out.mkdir()
    for run in ("trajectories", "zero_shot.test", "rft.test", "dpo.test", "sweet_pmi.test", "sweet.test"):
        (recipe.out / f"{run}.jsonl.manifest.json").write_text(json.dumps({"status": "finished"}, indent=2))
    code, _, errors = recipe.run(HUMAN_GPUS="0")
    assert code == 0, errors
    assert len(recipe.events()) == 37 and not (tmp_path / "child").exists()
    (recipe.out / "dpo.test.jsonl.manifest.json").write_text(json.dumps({"status": "running"}, indent=2))
    (tmp_path / "events").unlink()
    assert recipe.run(HUMAN_GPUS="0")[0] == 0
    assert [script for script, *_ in recipe.events()].count("server_on") == 1


def test_the_server_is_started_for_failed_dialogues_that_are_played_again(tmp_path):
    recipe = Recipe(tmp_path, step='case "$*" in *simulate*) exit 1 ;; esac')
    recipe.out.mkdir()
    (recipe.out / "trajectories.jsonl.manifest.json").write_text(json.dumps({"status": "finished"}, indent=2))
    recipe.run(HUMAN_GPUS="0", PLAY_FLAGS="--retry_failed")
    assert [script for script, *_ in recipe.events()] == ["server_on", "simulate_interactions.py", "server_off"]


def test_on_one_gpu_the_human_has_half_of_the_memory_during_dialogues_and_adapters_are_trained(tmp_path):
    recipe = Recipe(tmp_path, "run_one_gpu", gpus=1)
    code, _, errors = recipe.run(HUMAN_FLAGS="--max-model-len 4096")
    assert code == 0, errors
    events = recipe.events()
    (served,) = {command.partition("--port")[0] for script, _, command in events if script == "server_on"}
    assert "--gpu-memory-utilization 0.5" in served and "--max-model-len 4096" in served
    assert {gpus for script, gpus, _ in events if script == "server_on"} == {"0"}
    assert {gpus for script, gpus, _ in events if not script.startswith("server")} == {"all"}
    trained = [command for script, _, command in events if script in TRAINED]
    assert len(trained) == 5 and all(c.startswith("python scripts/") and "configs/one_gpu/" in c for c in trained)


def test_on_one_gpu_the_human_may_be_behind_an_api_with_a_key(tmp_path):
    recipe = Recipe(tmp_path, "run_one_gpu", gpus=1)
    url = {"HUMAN_SERVER": "https://api.example.com/v1", "HUMAN_KEY": "MY_KEY"}
    code, _, errors = recipe.run(**url)
    assert code != 0 and "HUMAN" in errors and recipe.events() == []
    code, _, errors = recipe.run(**url, HUMAN="some/human")
    assert code == 0, errors
    played = [command for script, _, command in recipe.events() if "simulate" in script]
    assert len(played) == 6 and not (tmp_path / "child").exists()
    for command in played:
        assert f"--env_model some/human --hostname {url['HUMAN_SERVER']} " in command
        assert command.endswith("--api_key_variable MY_KEY")


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({}, ["HUMAN_GPUS", "HUMAN_SERVER"]),
        ({"HUMAN_GPUS": "0", "HUMAN_SERVER": "n:1"}, ["HUMAN_GPUS", "HUMAN_SERVER"]),
        ({"HUMAN_GPUS": "0,9"}, ["9 is not among", "0,1"]),
        ({"HUMAN_GPUS": "1", "CUDA_VISIBLE_DEVICES": "0"}, ["1 is not among"]),
        ({"HUMAN_GPUS": "0,1"}, ["no GPU to the agent", "HUMAN_SHARE"]),
        ({"HUMAN_GPUS": "5", "CUDA_VISIBLE_DEVICES": "5"}, ["no GPU to the agent"]),
    ],
)
def test_gpus_that_cannot_be_given_are_refused_before_any_step(variables, named, tmp_path):
    recipe = Recipe(tmp_path, gpus=2)
    code, _, errors = recipe.run(**variables)
    assert code == 2 and all(text in errors for text in named), errors
    assert recipe.events() == []


@pytest.mark.parametrize(
    ("name", "variables", "models"),
    [
        ("run_backend", {"HUMAN_GPUS": "0,1,2,3"}, ["meta-llama/Llama-3.1-8B-Instruct", "some/human"]),
        ("run_backend", {"HUMAN_SERVER": "n:1", "AGENT": "scripts"}, []),
        ("run_frontend", {"HUMAN_SERVER": "n:1"}, ["meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen2-VL-7B-Instruct"]),
    ],
)
def test_models_that_are_no_folders_are_downloaded_and_packages_that_do_not_fit_are_a_warning(
    name, variables, models, tmp_path
):
    recipe = Recipe(tmp_path, name, step="exit 1")
    code, printed, _ = recipe.run(**variables, HUMAN="some/human")
    assert code == 1 and "has requirement" in printed
    assert recipe.events(), "the first step was begun"
    path = tmp_path / "downloads"
    lines = path.read_text().splitlines() if path.exists() else []
    assert lines == [f"download {model} --exclude original/*" for model in models]


def test_the_check_alone_is_refused_before_it_would_start_the_whole_run(tmp_path):
    recipe = Recipe(tmp_path)
    code, _, errors = recipe.run(HUMAN_GPUS="0,1,2,3", PREFLIGHT="only")
    assert code == 2 and "PREFLIGHT=only is gone" in errors and "NUM_TASKS=4" in errors
    assert recipe.events() == []


def test_a_message_names_the_recipe_that_was_called(tmp_path):
    recipe = Recipe(tmp_path, "run_one_gpu", gpus=1)
    assert recipe.run(HUMAN_GPUS="7")[2].startswith("run_one_gpu.sh: HUMAN_GPUS=7")
    assert recipe.run("--smok")[2].startswith("run_one_gpu.sh: unknown option --smok")


def test_a_server_that_ends_while_it_loads_shows_its_last_lines(tmp_path):
    recipe = Recipe(tmp_path, server='sys.exit("CUDA out of memory")')
    code, _, errors = recipe.run(HUMAN_GPUS="0")
    assert code == 1 and "CUDA out of memory" in errors
    assert [script for script, *_ in recipe.events()] == ["server_on"]


def test_a_step_that_fails_ends_the_server_and_shows_the_error_before_the_report_of_a_launcher(tmp_path):
    recipe = Recipe(tmp_path, step='case "$*" in *simulate*) echo error: no agent >&2; seq 30; exit 2 ;; esac')
    code, _, errors = recipe.run(HUMAN_GPUS="0")
    assert code == 1 and errors.splitlines()[1:3] == ["error: no agent", "11"]
    assert recipe.server_is_gone()


@pytest.mark.parametrize(
    ("number", "loading"),
    [(signal.SIGINT, False), (signal.SIGINT, True), (signal.SIGTERM, False), (signal.SIGHUP, False)],
)
def test_a_recipe_that_is_ended_leaves_no_server_and_no_step(number, loading, tmp_path):
    recipe = Recipe(
        tmp_path,
        step=f'case "$*" in *simulate*) echo $$ >{tmp_path}/step; exec sleep 600 ;; esac',
        server="time.sleep(600)" if loading else "",
    )
    with recipe.start(HUMAN_GPUS="0") as process:
        begun, text = (tmp_path / "events", "server_on") if loading else (tmp_path / "step", "\n")
        until(lambda: begun.exists() and text in begun.read_text(), process)
        if number == signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        process.communicate(timeout=900)
    assert process.returncode == 128 + number
    assert recipe.server_is_gone()
    assert loading or not alive(tmp_path / "step")
