"""inspect_ai's own command on a real server: the dialogues and rewards are those of the scripts."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest

from sweet_rl.dialogues.mini.tasks import make_tasks
from sweet_rl.runs.errors import UserError
from tests.support.api_server import MODEL, ApiServer, Reply, chat_reply
from tests.support.command_line import Result
from tests.support.other_tools import (
    graded_again,
    graded_by_scripts,
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


def rows_of(folder: Path, log: Path) -> dict[str, dict]:
    """The graded dialogues of a log, which are rows of trajectories, by id."""
    from inspect_ai.log import read_eval_log

    samples = [sample for sample in read_eval_log(str(log)).samples or () if sample.scores]
    return graded_again({sample.store["dialogue"]["id"]: sample.store["dialogue"] for sample in samples}, folder)


def test_mini_dialogues_and_rewards_equal_those_of_the_scripts_also_scored_again(served, folder):
    done = evaluate(folder, served.url, "mini", "--epochs", "2", "-T", "agent_prompt_path=mini_agent.txt")
    assert done.code == 0, done.err
    ours = graded_by_scripts(
        folder, served.url, "mini", task_type="mini", best_of_n=2, agent_prompt_path="mini_agent.txt"
    )
    assert rows_of(folder, log_of(folder)) == ours
    assert len({row["reward"] for row in ours.values()}) > 1
    again = folder / "again.eval"
    scored = run_tool(
        tool("inspect"), "score", log_of(folder), "--scorer", "sweet_rl/grade", "-S", "task_type=mini",
        "--action", "overwrite", "--output-file", again,
        cwd=folder, LOCAL_BASE_URL=served.url, LOCAL_API_KEY="none", PYTHONPATH="",
    )  # fmt: skip
    assert scored.code == 0 and again.is_file(), scored.err
    assert rows_of(folder, again) == ours


def in_this_process(monkeypatch, folder: Path, url: str, task: str, arguments: dict | None = None, **settings):
    """The log of the same evaluation without a process of its own."""
    import inspect_ai
    from inspect_ai.model import get_model

    from sweet_rl.integrations import inspect_ai as tasks

    monkeypatch.setenv("LOCAL_BASE_URL", url)
    monkeypatch.setenv("LOCAL_API_KEY", "none")
    made = getattr(tasks, task)(input_path=str(folder / "tasks.jsonl"), **(arguments or {}))
    model = get_model(NAME, memoize=False)  # because it keeps the address of an earlier test
    if "model_roles" in settings:
        settings["model_roles"] = {"human": model}
    (log,) = inspect_ai.eval(
        made, model=model, max_retries=0, display="none", log_dir=str(folder / "logs"), log_format="eval", **settings
    )
    return log


def test_colbench_with_a_model_as_the_human_equals_the_scripts(tmp_path, monkeypatch):
    tasks = write_colbench_tasks(tmp_path, 4)
    with ApiServer(plays_colbench(tasks)) as server:
        log = in_this_process(monkeypatch, tmp_path, server.url, "colbench_backend", model_roles=True)
        assert log.status == "success", log.error
        ours = graded_by_scripts(tmp_path, server.url, MODEL)
    assert rows_of(tmp_path, log_of(tmp_path)) == ours
    assert sorted(row["reward"] for row in ours.values()) == [0, 0, 1, 1]


def test_a_dead_server_gives_no_reward(folder, monkeypatch):
    log = in_this_process(monkeypatch, folder, "http://127.0.0.1:9/v1", "mini", fail_on_error=False)
    assert log.results is None and len(log.samples) == 3
    assert not any(sample.scores for sample in log.samples)


@pytest.mark.parametrize("limit", [{"message_limit": 4}, {"token_limit": 20}])
def test_a_limit_ends_its_sample_only_and_gives_it_no_score(limit, folder, monkeypatch):
    first = make_tasks(1, seed=4)[0]

    def answer(body: dict) -> Reply:
        if first["problem_description"] in body["messages"][0]["content"]:  # this one would go on
            return chat_reply("Why?")
        return chat_reply("I WANT TO ANSWER:\ndef f(): pass")

    with ApiServer(answer) as server:
        log = in_this_process(monkeypatch, folder, server.url, "mini", **limit)
    assert log.status == "success" and len(log.samples) == 3, log.error
    (ended,) = [sample for sample in log.samples if sample.limit is not None]
    assert "dialogue" not in ended.store and log.results.scores[0].unscored_samples == 1


def test_a_model_that_does_not_know_the_world_is_told_how_to_answer(folder, monkeypatch):
    tasks = make_tasks(3, seed=4)

    def answer(body: dict) -> Reply:  # a model that does what it is told, and nothing else
        opening = body["messages"][0]["content"]
        task = next(task for task in tasks if task["problem_description"] in opening)
        marker = "I WANT TO ANSWER:" if "I WANT TO ANSWER:" in opening else "Here it is:"
        return chat_reply(f"{marker}\n```python\n{task['ground_truth']}\n```")

    with ApiServer(answer) as server:
        log = in_this_process(monkeypatch, folder, server.url, "mini")
    assert [sample.scores["grade"].value["success"] for sample in log.samples] == [1.0] * 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"max_turn": 3}, "max_turns"),
        ({"max_turns": "many"}, "max_turns.*integer"),
        ({"grading": {"time": 1}}, "timeout"),
        ({"input_path": "nowhere.jsonl"}, "nowhere.jsonl"),
    ],
)
def test_an_argument_that_cannot_be_used_is_refused_by_name(arguments, words):
    from sweet_rl.integrations import inspect_ai as tasks

    with pytest.raises(UserError, match=words):
        tasks.mini(**arguments)
