"""A `main` with its command line and config file: what it is called with, its errors and its exit codes."""

import os
import subprocess
import sys

import pytest

from sweet_rl.runs.cli import command, parse, run
from sweet_rl.runs.errors import UserError
from tests.support.command_line import ROOT


def main(agent_model: str, num_tasks: int = 10, beta: float = 0.1, progress: bool = True, limit: int | None = None):
    """Does nothing."""


def test_only_what_was_given_is_passed_on():
    assert parse(main, ["--agent_model", "m"]) == {"agent_model": "m"}


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--num_task", "3"], "Did you mean 'num_tasks'"),
        (["--zzzz", "1"], "Known: agent_model, num_tasks"),
        (["--num_tasks", "3.5"], "--num_tasks is '3.5'"),
        (["--num_tasks"], "--num_tasks has no value"),
        (["--agent_model", "--progress"], "--agent_model has no value"),
        (["-beta", "3"], "-beta"),
        (["--progress", "maybe"], "--progress is 'maybe'"),
        (["stray"], "'stray'"),
        (["--progress", "true", "stray"], "Several values are separated by commas"),
        (["--config", "no.yaml"], "no.yaml"),
    ],
)
def test_a_wrong_command_line_is_an_error_that_names_the_word(words, named):
    with pytest.raises(UserError) as error:
        parse(main, ["--agent_model", "m", *words])
    assert named in str(error.value)


def test_a_missing_required_flag_is_named():
    with pytest.raises(UserError, match="--agent_model"):
        parse(main, ["--num_tasks", "3"])


@pytest.fixture
def config(tmp_path):
    def write(text):
        path = tmp_path / "config.yaml"
        path.write_text(text)
        return str(path)

    return write


def test_a_config_file_gives_values_and_a_flag_by_hand_wins(config):
    path = config("agent_model: 8\nnum_tasks: 5\nbeta: 1e-5\nlimit: null\nprogress: no\n")
    assert parse(main, ["--config", path, "--num_tasks", "6"]) == {
        "agent_model": "8",
        "num_tasks": 6,
        "beta": 1e-5,
        "limit": None,
        "progress": False,
    }


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("num_taks: 3", "'num_taks' in .*config.yaml.* 'num_tasks'"),
        ("num_tasks: x", "'num_tasks' in .*config.yaml is 'x'"),
        ("agent_model: m\nconfig: other.yaml", "'config'"),
        ("- a", "list"),
        ("a: [", "YAML"),
    ],
)
def test_a_wrong_config_file_is_an_error_that_names_file_and_setting(config, text, named):
    with pytest.raises(UserError, match=named):
        parse(main, ["--config", config(text)])


@pytest.mark.parametrize("word", ["--local_rank=1", "--local-rank=1"])
def test_the_word_that_a_launcher_adds_is_left_out_and_is_unknown_without_one(word, monkeypatch, capsys):
    seen = []

    def script(a: int, b: str = "x"):
        seen.append((a, b))

    monkeypatch.setenv("LOCAL_RANK", "1")
    run(script, [word, "--a", "3"])
    assert seen == [(3, "x")]
    monkeypatch.delenv("LOCAL_RANK")
    with pytest.raises(SystemExit):
        run(script, [word, "--a", "3"])
    assert "--local_rank" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "printed"),
    [
        (UserError("the file is empty"), 2, "error: the file is empty\n"),
        (KeyboardInterrupt(), 130, "\ninterrupted: run the same command again to continue\n"),
    ],
)
def test_an_error_of_the_user_and_an_interruption_are_a_line_and_an_exit_code(error, code, printed, capsys):
    def script():
        raise error

    with pytest.raises(SystemExit) as end:
        run(script, [])
    assert end.value.code == code and capsys.readouterr().err == printed


def test_a_command_that_failed_does_not_wait_to_leave_the_group_of_its_processes(monkeypatch):
    def script():
        raise OSError("it broke")

    monkeypatch.setattr(command, "leave_process_group", lambda: pytest.fail("the group was left"))
    with pytest.raises(OSError, match="it broke"):
        run(script, [])


GROUP = """
import atexit, sys
import torch.distributed as distributed
from sweet_rl.runs.cli import run

class TornDown:
    def __del__(self):
        print("torn down")

kept = TornDown()

def main(store: str):
    atexit.register(lambda: print("at exit, in a group:", distributed.is_initialized()))
    distributed.init_process_group("gloo", store=distributed.FileStore(store, 1), rank=0, world_size=1)
    print("worked")

run(main)
"""


def test_a_command_of_several_processes_that_worked_leaves_their_group_and_tears_nothing_down(tmp_path):
    """While the interpreter is torn down, gloo's threads abort the process now and then."""
    path = tmp_path / "train.py"
    path.write_text(GROUP)
    words = [sys.executable, path, "--store", tmp_path / "store"]
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert (done.returncode, done.stdout) == (0, "worked\nat exit, in a group: False\n"), done.stderr
