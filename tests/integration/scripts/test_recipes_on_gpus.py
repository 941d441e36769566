"""The recipes for GPUs: which GPUs each step has and when the human's server runs.

Programs that stand for vllm, torchrun, python and nvidia-smi note what they are given. The one for vllm serves HTTP.
"""

from __future__ import annotations

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


def test_the_human_has_its_gpus_during_dialogues_and_trainings_have_all_of_them(tmp_path):
    recipe = Recipe(tmp_path)
    code, _, errors = recipe.run(HUMAN_GPUS="0,1,2,3", HUMAN="some/human")
    assert code == 0 and not errors, errors
    events = recipe.events()
    order = [(script, gpus) for script, gpus, _ in events]
    dialogues, graded, trained = ("simulate_interactions.py", "4,5,6,7"), ("evaluate_code.py", "all"), "train_dpo.py"
    assert order[:8] == [
        ("server_on", "0,1,2,3"), dialogues, ("server_off", "0,1,2,3"), graded, (trained, "all"),
        ("train_sft.py", "all"), (trained, "all"), ("sample_best_of_n.py", "all"),
    ]  # fmt: skip
    for first in (8, 16):  # by the critic and by PMI
        parts = events[first : first + 8]
        assert {script for script, *_ in parts} == {"rank_best_of_n.py"}
        shards = {gpus: command.split("--shard ")[1].split()[0] for _, gpus, command in parts}
        assert shards == {str(gpu): f"{gpu + 1}/8" for gpu in range(8)}
    rows = (recipe.out / "ranked.jsonl").read_text().splitlines()
    assert rows == [f"{number}/8" for number in range(1, 9)]  # the parts one after the other
    assert order[24:28] == 2 * [("generate_random_pairs_from_ranks.py", "all"), (trained, "all")]
    assert order[28:] == [
        ("server_on", "0,1,2,3"), *5 * [dialogues, graded], ("server_off", "0,1,2,3"), ("compare_runs.py", "all"),
    ]  # fmt: skip
    served = [command for script, _, command in events if script == "server_on"]
    assert all(command.startswith("serve some/human") and "--tensor-parallel-size 4" in command for command in served)
    asked = [command.split("--hostname ")[1].split()[0] for script, _, command in events if "simulate" in script]
    ports = [command.split()[-1] for command in served]
    assert asked == [f"127.0.0.1:{port}" for port in (ports[0], *5 * ports[1:])]
    launched = [command for script, _, command in events if script in TRAINED]
    assert all("--nproc_per_node gpu " in command for command in launched) and recipe.server_is_gone()


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


def test_a_step_that_fails_ends_the_server_and_shows_the_error_before_the_report_of_a_launcher(tmp_path):
    recipe = Recipe(tmp_path, step='case "$*" in *simulate*) echo error: no agent >&2; seq 30; exit 2 ;; esac')
    code, _, errors = recipe.run(HUMAN_GPUS="0")
    assert code == 1 and errors.splitlines()[1:3] == ["error: no agent", "11"]
    assert recipe.server_is_gone()


@pytest.mark.parametrize(
    ("number", "loading"),
    [(signal.SIGINT, True), (signal.SIGTERM, False)],
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
