"""inspect_ai's own command on a real server: the dialogues and rewards are those of the scripts."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.support.api_server import MODEL, ApiServer
from tests.support.command_line import Result, call
from tests.support.other_tools import (
    graded_by_scripts,
    imported,
    needs,
    plays_colbench,
    run_tool,
    tool,
    write_colbench_tasks,
)

pytestmark = [pytest.mark.slow, needs("inspect", "inspect")]
NAME = f"openai-api/local/{MODEL}"


def evaluate(folder: Path, url: str, task: str, *words: str) -> Result:
    """`inspect eval sweet_rl/TASK` on tasks.jsonl; the log is FOLDER/logs/*.eval."""
    if not entry_points(group="inspect_ai", name="sweet_rl"):
        pytest.skip("needs the entry point of sweet_rl: pip install -e . again")
    # PYTHONPATH would put the folder of the sources first, which inspect_ai does not take for an installed package.
    return run_tool(
        tool("inspect"), "eval", f"sweet_rl/{task}", "--model", NAME, "--max-retries", "0", "--display", "plain",
        "--log-dir", folder / "logs", "-T", f"input_path={folder / 'tasks.jsonl'}", *words,
        cwd=folder, LOCAL_BASE_URL=url, LOCAL_API_KEY="none", PYTHONPATH="",
    )  # fmt: skip


def log_of(folder: Path) -> Path:
    (log,) = (folder / "logs").glob("*.eval")
    return log


def test_mini_dialogues_and_rewards_equal_those_of_the_scripts(served, folder):
    done = evaluate(folder, served.url, "mini", "--epochs", "2")
    assert done.code == 0, done.err
    ours = graded_by_scripts(folder, served.url, "mini", task_type="mini", best_of_n=2)
    assert imported(log_of(folder), folder / "imported.jsonl") == ours
    assert len({row["reward"] for row in ours.values()}) > 1


def in_this_process(monkeypatch, folder: Path, url: str, task: str, **settings):
    """The log of the same evaluation without a process of its own."""
    import inspect_ai

    from sweet_rl.integrations import inspect_ai as tasks

    monkeypatch.setenv("LOCAL_BASE_URL", url)
    monkeypatch.setenv("LOCAL_API_KEY", "none")
    made = getattr(tasks, task)(input_path=str(folder / "tasks.jsonl"))
    (log,) = inspect_ai.eval(
        made, model=NAME, max_retries=0, display="none", log_dir=str(folder / "logs"), log_format="eval", **settings
    )
    return log


def test_colbench_with_a_model_as_the_human_equals_the_scripts(tmp_path, monkeypatch):
    tasks = write_colbench_tasks(tmp_path, 4)
    with ApiServer(plays_colbench(tasks)) as server:
        log = in_this_process(monkeypatch, tmp_path, server.url, "colbench_backend", model_roles={"human": NAME})
        assert log.status == "success", log.error
        ours = graded_by_scripts(tmp_path, server.url, MODEL)
    assert imported(log_of(tmp_path), tmp_path / "imported.jsonl") == ours
    assert sorted(row["reward"] for row in ours.values()) == [0, 0, 1, 1]


def test_a_dead_server_gives_no_reward(folder, monkeypatch):
    log = in_this_process(monkeypatch, folder, "http://127.0.0.1:9/v1", "mini", fail_on_error=False)
    assert log.results is None
    result = call("import_dialogues.py", input_path=log_of(folder), output_path=folder / "imported.jsonl")
    assert result.code == 1 and "none of its 3 dialogues has a reward" in result.err
