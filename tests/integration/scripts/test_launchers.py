"""The recipes run_mini.sh, run_backend.sh and run_frontend.sh, with programs that stand for python and torchrun: each
command is valid and finds its inputs; a recipe that fails or is ended leaves nothing behind."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sweet_rl.runs.cli import parse_flags
from tests.unit.test_configs import ROOT, main_of

FIRST_GPU = {"HUMAN_GPUS": "1", "GPUS": "4"}  # is the human's
PROGRAMS = ("scripts", "visualizers")
WRITTEN = ("output_dir", "output_path", "preference_path", "ground_truth_preference_path", "save_path")
# It has a child that does not end by itself, as vLLM has.
VLLM = """#!{python} -S
import os, signal, subprocess, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *words):
        pass

signal.alarm(1200)  # after a test that has failed
child = subprocess.Popen(["sleep", "1200"])
open("{place}/server.pid", "a").write(f"{{os.getpid()}}\\n{{child.pid}}\\n")
HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""
SHARD = """case "$*" in *--shard*)
    while [ $# -gt 0 ]; do case "$1" in --output_path) out=$2 ;; --shard) part=$2 ;; esac; shift; done
    servers=$(xargs ps -o stat= -p <{place}/server.pid | grep -cv Z)
    echo "$CUDA_VISIBLE_DEVICES $part servers: $servers" >"$out" ;;
esac
"""


def stand_in(place: Path, script: str, recipe: str, **variables: str) -> tuple[list, dict[str, str]]:
    """The command of a recipe and an environment in which `script` stands for python and torchrun.

    The script notes the command in the file `commands`, except for `python -c`, and then runs what it is given. A shard
    writes its GPU, its number and how many processes of the human's server are alive. `GPUS` is their number.
    """
    (place / "bin").mkdir(exist_ok=True, parents=True)
    note = f'line=$(printf \'%q \' "$(basename "$0")" "$@"); echo "$line" >>{place}/commands'  # in one write
    port = f'-c*socket*) exec {sys.executable} -S "$@" ;;'
    step = f'case "$*" in {port} -c* | "-m pip check") exit ;; esac\n{note}\n{script}\n{SHARD.format(place=place)}'
    programs = {
        "python": f"#!/bin/bash\n{step}", "torchrun": f"#!/bin/bash\n{step}", "hf": "#!/bin/bash\n",
        "nvidia-smi": "#!/bin/bash\nseq ${GPUS:-0}\n", "vllm": VLLM.format(python=sys.executable, place=place),
    }  # fmt: skip
    for name, text in programs.items():
        (place / "bin" / name).write_text(text)
        (place / "bin" / name).chmod(0o755)
    (place / "bin" / "activate").touch()  # a virtual environment, which is not entered
    hidden = {"CUDA_VISIBLE_DEVICES", "HUMAN_SERVER", "HUMAN_GPUS", "LAUNCH"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {"PATH": f"{place}/bin:{os.environ['PATH']}", "SWEET_RL_VENV": str(place), **variables}
    return ["bash", ROOT / "scripts" / f"{recipe}.sh"], environment


def noted(place: Path) -> list[list[str]]:
    """The commands that stood-in programs have noted, in the order in which they began."""
    path = place / "commands"
    return [shlex.split(line) for line in path.read_text().splitlines()] if path.exists() else []


def parsed(words: list[str], monkeypatch) -> dict:
    """The settings of a script's command line as its parser reads it; a launcher before the script is left out."""
    monkeypatch.chdir(ROOT)
    if "-m" in words:
        place = words.index("-m") + 1
        return parse_flags(main_of(f"{words[place].replace('.', '/')}.py"), words[place + 1 :])
    place = next(i for i, word in enumerate(words) if word.endswith(".py") and word.split("/")[0] in PROGRAMS)
    return parse_flags(main_of(words[place]), words[place + 1 :])


def run(place: Path, recipe: str, *words: str, script: str = "", **variables: str) -> subprocess.CompletedProcess:
    """A recipe to its end."""
    command, environment = stand_in(place, script, recipe, OUT=str(place / "out"), **variables)
    return subprocess.run(
        [*command, *words], cwd=place, env=environment, capture_output=True, text=True, timeout=300
    )  # fmt: skip


def have_ended(file: Path) -> bool:
    """Whether the processes of a file end soon, as those do that have got a signal on a busy machine."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        states = [
            subprocess.run(["ps", "-o", "stat=", "-p", number], capture_output=True, text=True).stdout
            for number in file.read_text().split()
        ]
        if not any(state.strip("Z+\n") for state in states):  # a zombie waits for its parent
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("recipe", ["run_mini", "run_backend", "run_frontend"])
def test_the_commands_of_a_recipe_are_valid_and_none_begins_before_its_inputs(recipe, tmp_path, monkeypatch):
    done = run(tmp_path, recipe, HUMAN_SERVER="n1:8000", TRAIN_TASKS="a.jsonl", TEST_TASKS="b.jsonl")
    assert done.returncode == 0, done.stderr
    commands = noted(tmp_path)
    names = [Path(next(word for word in command if word.endswith(".py"))).stem for command in commands]
    settings = [parsed(command, monkeypatch) for command in commands]
    outputs = [{str(one[key]) for key in WRITTEN if key in one} for one in settings]
    for number, one in enumerate(settings):  # run_mini.sh has two lanes
        assert not set(map(str, one.values())) & set().union(*outputs[number + 1 :])
    played = ["simulate_interactions", "evaluate_html" if recipe == "run_frontend" else "evaluate_code"]
    critic = "train_value" if recipe == "run_frontend" else "train_dpo"
    policies = 2 if recipe == "run_backend" else 1  # by PMI too
    by_turns = ["rank_best_of_n", "generate_random_pairs_from_ranks", "train_dpo"]
    others = ["make_mini_tasks", "visualize_dialogue_histories"] if recipe == "run_mini" else []
    assert sorted(names) == sorted([
        *played, "train_sft", "train_dpo", critic, "sample_best_of_n", *policies * by_turns,
        *(3 + policies) * played, "compare_runs", *others,
    ])  # fmt: skip
    if recipe != "run_mini":  # of the paper
        assert {one["protocol"] for one in settings if "agent_model" in one} == {"released"}
        assert {one["paper_grader"] for one, name in zip(settings, names, strict=True) if name == played[1]} == {True}


def test_each_gpu_ranks_its_own_part_and_the_human_has_left(tmp_path):
    """Four GPUs, of which the human has two during the dialogues."""
    script = f'case "$*" in *simulate*) echo "$CUDA_VISIBLE_DEVICES" >>{tmp_path}/agents ;; esac'
    done = run(tmp_path, "run_backend", script=script, HUMAN_GPUS="1,2", HUMAN="some/human", GPUS="4")
    assert done.returncode == 0, done.stderr
    rows = (tmp_path / "out" / "ranked.jsonl").read_text().splitlines()
    assert rows == [f"{gpu} {gpu}/4 servers: 0" for gpu in range(1, 5)]
    assert set((tmp_path / "agents").read_text().split()) == {"3,4"}
    assert have_ended(tmp_path / "server.pid")


@pytest.mark.parametrize(
    ("recipe", "words", "variables", "named"),
    [
        ("run_backend", [], {}, ["HUMAN_GPUS", "HUMAN_SERVER"]),
        ("run_backend", [], {"HUMAN_GPUS": "1,9", "GPUS": "4"}, ["9 is not among", "1,2,3,4"]),
        ("run_backend", [], {"HUMAN_GPUS": "1,2,3,4", "GPUS": "4"}, ["no GPU to the agent", "HUMAN_SHARE"]),
        ("run_mini", ["--seeds", "3"], {}, ["unknown option --seeds 3"]),
        ("run_one_gpu", ["--smoke"], {}, ["unknown option --smoke"]),
    ],
)
def test_what_cannot_be_meant_is_refused_before_any_step(recipe, words, variables, named, tmp_path):
    done = run(tmp_path, recipe, *words, **variables)
    assert done.returncode == 2 and all(text in done.stderr for text in named), done.stderr
    assert noted(tmp_path) == []


@pytest.mark.parametrize(
    ("recipe", "step", "variables", "next_step"),
    [
        ("run_mini", "critic.yaml", {}, "rank_best_of_n"),
        ("run_backend", "simulate", FIRST_GPU, "evaluate"),
    ],
)
def test_a_step_that_fails_shows_its_cause_and_ends_the_recipe(recipe, step, variables, next_step, tmp_path):
    script = f'case "$*" in *{step}*) echo error: no agent >&2; exit 2 ;; esac'
    done = run(tmp_path, recipe, script=script, **variables)
    assert done.returncode == 1 and "error: no agent" in done.stderr
    assert not [words for words in noted(tmp_path) if next_step in str(words)]
    assert not variables or have_ended(tmp_path / "server.pid")


@pytest.mark.parametrize(
    ("recipe", "steps", "variables"),
    [
        ("run_mini", ("sampling.yaml", "rejection_fine_tuning.yaml"), {}),  # of its two lanes
        ("run_backend", ("simulate",), FIRST_GPU),
    ],
)
def test_a_recipe_that_is_ended_leaves_no_server_and_no_step_and_the_same_command_goes_on(
    recipe, steps, variables, tmp_path
):
    cases = " ".join(f"*{step}*) echo $$ >>{tmp_path}/steps.pid; exec sleep 600 ;;" for step in steps)
    command, environment = stand_in(tmp_path, f'case "$*" in {cases} esac', recipe, OUT=f"{tmp_path}/out", **variables)
    (tmp_path / "steps.pid").touch()
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL) as running:
        while len((tmp_path / "steps.pid").read_text().split()) < len(steps):
            assert running.poll() is None
            time.sleep(0.05)
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=300) == 128 + signal.SIGTERM
    assert have_ended(tmp_path / "steps.pid")
    assert not variables or have_ended(tmp_path / "server.pid")
    done = run(tmp_path, recipe, **variables)
    assert done.returncode == 0, done.stderr


def test_shell_scripts_are_clean():
    scripts = [*ROOT.glob("scripts/*.sh"), *ROOT.glob("lab/**/*.sh")]
    done = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
