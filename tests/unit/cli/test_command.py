import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

import sweet_rl
from sweet_rl.cli import parse, run
from sweet_rl.errors import UserError


def main(
    agent_model: str,
    num_tasks: int = 10,
    beta: float = 0.1,
    progress: bool = True,
    hostname: list[str] | None = None,
    limit: int | None = None,
    engine: Literal["openai", "vllm"] = "openai",
    weights: tuple[float, ...] = (),
    normalize: str = "turn",
):
    """Does nothing."""


def given(*words):
    return parse(main, ["--agent_model", "m", *words])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--num_task", "3"], "unknown setting --num_task. Did you mean 'num_tasks'"),
        (["--noise"], "unknown setting --noise"),
        (["--zzzz", "1"], "Known: agent_model, num_tasks"),
        (["--num_tasks", "3.5"], "--num_tasks is '3.5'; expected a whole number"),
        (["--num_tasks"], "--num_tasks has no value; expected a whole number"),
        (["--agent_model"], "--agent_model has no value"),
        (["--agent_model", "--progress"], "--agent_model has no value"),
        (["--beta", "big"], "--beta is 'big'; expected a number"),
        (["--beta", "nan"], "--beta is 'nan'; expected a number"),
        (["--beta", "inf"], "--beta is 'inf'; expected a number"),
        (["-b", "3"], "unknown setting -b. Flags have two dashes"),
        (["-beta", "3"], "unknown setting -beta. Flags have two dashes"),
        (["--progress", "maybe"], "--progress is 'maybe'; expected true or false"),
        (["--limit", "many"], "expected a whole number or nothing"),
        (["--engine", "jax"], "expected 'openai' or 'vllm'"),
        (["--weights", "1,x"], "--weights is '1,x'"),
        (["stray"], "'stray' has no flag before it"),
        (["--progress", "true", "stray"], "'stray' has no flag before it"),
    ],
)
def test_a_wrong_flag_is_one_clear_message(words, message):
    with pytest.raises(UserError) as error:
        given(*words)
    assert message in str(error.value)


def test_a_missing_required_flag_is_named():
    with pytest.raises(UserError, match="missing: --agent_model"):
        parse(main, ["--num_tasks", "3"])


def test_only_what_was_given_is_passed_on():
    assert parse(main, ["--agent_model", "m"]) == {"agent_model": "m"}


@pytest.fixture
def config(tmp_path):
    def write(text):
        path = tmp_path / "config.yaml"
        path.write_text(text)
        return str(path)

    return write


def test_a_config_file_gives_values_and_a_flag_by_hand_wins(config):
    path = config("agent_model: 8\nnum_tasks: 5\nbeta: 1e-5\nhostname: [a, b]\nlimit: null\nprogress: no\n")
    assert parse(main, ["--config", path, "--num_tasks", "6"]) == {
        "agent_model": "8",
        "num_tasks": 6,
        "beta": 1e-5,
        "hostname": ["a", "b"],
        "limit": None,
        "progress": False,
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("num_taks: 3", "unknown setting 'num_taks' in .*config.yaml. Did you mean 'num_tasks'"),
        ("num_tasks: x", "'num_tasks' in .*config.yaml is 'x'; expected a whole number"),
        ("num_tasks: 2.5", "expected a whole number"),
        ("num_tasks: true", "expected a whole number"),
        ("agent_model: no", "'agent_model' in .* is False; expected text"),
        ("agent_model: null", "is None; expected text"),
        ("agent_model: m\nconfig: other.yaml", "unknown setting 'config'"),
        ("- a", "expected lines 'name: value', found list"),
        ("a: [", "not a YAML file"),
    ],
)
def test_a_wrong_config_file_is_one_clear_message(config, text, message):
    with pytest.raises(UserError, match=message):
        parse(main, ["--config", config(text)])


def test_a_missing_config_file_is_named():
    with pytest.raises(UserError, match="--config no.yaml: No such file"):
        given("--config", "no.yaml")


def test_run_calls_main_with_the_values():
    seen = {}

    def script(a: int, b: str = "x"):
        seen.update(a=a, b=b)

    run(script, ["--a", "3"])
    assert seen == {"a": 3, "b": "x"}


@pytest.mark.parametrize("word", ["--local_rank=1", "--local-rank=1"])
def test_the_word_that_a_launcher_adds_is_left_out_and_is_unknown_without_one(word, monkeypatch, capsys):
    seen = []

    def script(a: int):
        seen.append(a)

    monkeypatch.setenv("LOCAL_RANK", "1")
    run(script, [word, "--a", "3"])
    assert seen == [3]
    monkeypatch.delenv("LOCAL_RANK")
    with pytest.raises(SystemExit):
        run(script, [word, "--a", "3"])
    assert "unknown setting --local_rank" in capsys.readouterr().err


def test_a_user_error_is_its_message_alone_and_exit_code_2(capsys):
    def script():
        raise UserError("the file is empty")

    with pytest.raises(SystemExit) as end:
        run(script, [])
    assert end.value.code == 2
    assert capsys.readouterr().err == "error: the file is empty\n"


def test_an_interrupted_script_says_how_to_continue(capsys):
    def script():
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as end:
        run(script, [])
    assert end.value.code == 130
    assert "run the same command again to continue" in capsys.readouterr().err


SCRIPT = '''
"""Plays. Launch: python play.py --tasks t.jsonl"""
from sweet_rl.cli import run

def main(tasks: str, seed: int = 0):
    """Plays dialogues.

    Args:
        tasks: where the tasks are
    """
    print(repr((tasks, seed)))

if __name__ == "__main__":
    run(main)
'''


def test_a_script_has_help_values_and_exit_codes(tmp_path):
    path = tmp_path / "play.py"
    path.write_text(SCRIPT)

    def call(*words):
        environment = os.environ | {"PYTHONPATH": str(Path(sweet_rl.__file__).parents[1])}
        return subprocess.run([sys.executable, path, *words], capture_output=True, text=True, env=environment)

    shown = call("--help")
    assert shown.returncode == 0
    for text in ("Plays dialogues.", "--tasks TEXT", "where the tasks are", "--seed INT", "[0]", "--config"):
        assert text in shown.stdout
    assert call("--tasks", "1", "--seed=2").stdout == "('1', 2)\n"
    wrong = call("--task", "1")
    assert wrong.returncode == 2 and wrong.stdout == ""
    assert wrong.stderr == "error: unknown setting --task. Did you mean 'tasks'?\n"


GROUP = """
import atexit, sys
import torch.distributed as distributed
from sweet_rl.cli import run

class TornDown:
    def __del__(self):
        print("torn down")

kept = TornDown()

def main(store: str, fails: bool = False):
    atexit.register(lambda: print("at exit, in a group:", distributed.is_initialized()))
    distributed.init_process_group("gloo", store=distributed.FileStore(store, 1), rank=0, world_size=1)
    print("worked")
    if fails:
        raise OSError("it broke")

run(main)
"""


def test_a_command_of_several_processes_that_worked_leaves_their_group_and_tears_nothing_down(tmp_path):
    """While the interpreter is torn down, gloo's threads abort the process now and then."""
    path = tmp_path / "train.py"
    path.write_text(GROUP)
    environment = os.environ | {"PYTHONPATH": str(Path(sweet_rl.__file__).parents[1])}

    def call(*words):
        words = [sys.executable, path, "--store", tmp_path / "store", *words]
        return subprocess.run(words, capture_output=True, text=True, env=environment)

    done = call()
    assert (done.returncode, done.stdout) == (0, "worked\nat exit, in a group: False\n")
    (tmp_path / "store").unlink(missing_ok=True)
    failed = call("--fails")
    assert failed.returncode == 1 and "OSError: it broke" in failed.stderr and "torn down" in failed.stdout
