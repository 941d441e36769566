"""Commands of other tools that are installed beside this package, and the runs of our own scripts to compare with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweet_rl.runs.records import Task
from tests.support.api_server import MODEL, Reply, chat_reply
from tests.support.command_line import Result, call, read_rows, write_rows
from tests.support.grading import colbench, colbench_tasks

REPLY = "Whatever seems right to you. I have no more to say about that."


def tool(name: str) -> Path:
    """The command `name` of this environment."""
    return Path(sys.executable).with_name(name)


def needs(name: str, extra: str) -> pytest.MarkDecorator:
    """A mark that skips tests if the command `name` is not installed."""
    return pytest.mark.skipif(not tool(name).is_file(), reason=f"needs {name}: pip install 'sweet_rl[{extra}]'")


def run_tool(*words: str | Path, cwd: Path, **variables: str) -> Result:
    """Run a command in a process of its own, without a network beyond this machine."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **variables}
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=300
    )
    return Result(done.returncode, done.stdout, done.stderr)


def graded_by_scripts(folder: Path, url: str, human: str, **flags) -> dict[str, dict]:
    """The rows that simulate_interactions.py and evaluate_code.py write, by id.

    Args:
        folder: of tasks.jsonl; the outputs are written there.
        url: server of the agent, and of the human unless `human` is a scripted one.
        human: `--env_model`.
        flags: other flags of simulate_interactions.py.
    """
    if human == MODEL:
        flags |= {"hostname": url}
    played = call(
        "simulate_interactions.py", agent_model=MODEL, agent_hostname=url, env_model=human,
        input_path=folder / "tasks.jsonl", output_path=folder / "played.jsonl", **flags,
    )  # fmt: skip
    assert played.code == 0, played.err
    graded = call("evaluate_code.py", input_path=folder / "played.jsonl", output_path=folder / "graded.jsonl")
    assert graded.code == 0, graded.err
    return rows_by_id(folder / "graded.jsonl")


def graded_again(rows: dict[str, dict], folder: Path) -> dict[str, dict]:
    """The rows of a tool's log by id, after a check that evaluate_code.py gives them the same rewards."""
    logged, again = write_rows(folder / "logged.jsonl", list(rows.values())), folder / "again.jsonl"
    done = call("evaluate_code.py", "--overwrite", input_path=logged, output_path=again)
    assert done.code == 0, done.err
    for name, row in rows_by_id(again).items():
        assert row["reward"] == rows[name]["reward"]
    return rows


def rows_by_id(path: Path) -> dict[str, dict]:
    return {row["id"]: row for row in read_rows(path)}


def write_colbench_tasks(folder: Path, count: int) -> list[Task]:
    """The first development tasks of ColBench as tasks.jsonl; the test is skipped without them."""
    if colbench() is None:
        pytest.skip("needs ColBench's development tasks: SWEET_RL_COLBENCH=FOLDER")
    tasks = colbench_tasks()[:count]
    write_rows(folder / "tasks.jsonl", [task.to_dict() for task in tasks])
    return tasks


def plays_colbench(tasks: list[Task]):
    """Answers of a server that plays both sides: the agent asks once, then every other task gets its reference."""

    def answer(body: dict) -> Reply:
        messages = body["messages"]
        if "<hidden_code>" in messages[-1]["content"]:
            return chat_reply(REPLY)
        if len(messages) == 1:
            return chat_reply("What should happen with an empty input? ")
        number = next(i for i, task in enumerate(tasks) if task.problem_description in messages[0]["content"])
        code = tasks[number].ground_truth if number % 2 == 0 else "def nothing():\n    return None"
        return chat_reply(f"I WANT TO ANSWER:\n```python\n{code}\n```")

    return answer
