"""One command as a step: its log, its cost, its exit status, its GPUs."""

import json
import os
import signal
import sys

from sweet_rl.pipeline.timed import main


def timed(tmp_path, *command, gpus=0, pool=""):
    flags = {"--name": 'two "x"', "--output": "a b", "--gpus": gpus, "--pool": pool}
    flags |= {"--log": tmp_path / "logs" / "a.log", "--times": tmp_path / "times.jsonl"}
    words = [f"{flag}={value}" for flag, value in flags.items()]
    return main([*words, "--", *command])


def rows(tmp_path):
    return [json.loads(line) for line in (tmp_path / "times.jsonl").read_text().splitlines()]


def test_the_cost_is_that_of_the_command_and_the_output_is_in_the_log(tmp_path):
    code = "import sys; sum(range(10**7)); print('seen'); print('also', file=sys.stderr)"
    assert timed(tmp_path, sys.executable, "-c", code, gpus=3) == 0
    (row,) = rows(tmp_path)
    assert (row["step"], row["output"], row["status"], row["gpus"]) == ('two "x"', "a b", 0, 3)
    assert 0.02 < row["user_seconds"] + row["system_seconds"] < row["seconds"] + 1
    text = (tmp_path / "logs" / "a.log").read_text()
    assert text.startswith("$ ") and {"seen", "also"} <= set(text.splitlines())


def test_a_failure_is_recorded_and_is_the_exit_status(tmp_path):
    assert timed(tmp_path, "sh", "-c", "exit 3") == 3
    assert timed(tmp_path, "sh", "-c", "kill -9 $$") == 128 + signal.SIGKILL
    assert [row["status"] for row in rows(tmp_path)] == [3, -9]


def test_words_are_filled_in_where_the_command_runs_and_recorded_as_they_were(tmp_path, monkeypatch):
    monkeypatch.setenv("HEAD_NODE", "node7")
    timed(tmp_path, "echo", "$HEAD_NODE:29500")
    assert "node7:29500" in (tmp_path / "logs" / "a.log").read_text().splitlines()
    assert rows(tmp_path)[0]["command"] == "echo '$HEAD_NODE:29500'"


def test_a_command_sees_the_gpus_that_it_has_locked(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    timed(tmp_path, "sh", "-c", "echo gpus $CUDA_VISIBLE_DEVICES", gpus=2, pool="4,5,6")
    assert "gpus 4,5" in (tmp_path / "logs" / "a.log").read_text().splitlines()


def test_the_command_itself_holds_the_locks_of_its_gpus(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    timed(tmp_path, "sh", "-c", "ls -l /proc/$$/fd", gpus=1, pool="4")
    assert f"sweet_rl-gpus-{os.getuid()}/4" in (tmp_path / "logs" / "a.log").read_text()
