"""verifiers' own command on a real server: the dialogues and rewards are those of the scripts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from sweet_rl.dialogues.mini.tasks import make_tasks
from tests.support.api_server import MODEL, ApiServer, Reply, chat_reply
from tests.support.command_line import ROOT, Result, read_rows
from tests.support.other_tools import (
    graded_again,
    graded_by_scripts,
    needs,
    plays_colbench,
    run_tool,
    tool,
    write_colbench_tasks,
)

pytestmark = [pytest.mark.slow, needs("vf-eval", "verifiers")]


def evaluate(folder: Path, url: str, *words: str, program: Sequence[str | Path] = (tool("vf-eval"),)) -> Result:
    """`vf-eval sweet-rl-colbench` on tasks.jsonl; the traces are in FOLDER/outputs/run/traces.jsonl."""
    return run_verifiers(
        *program, "sweet-rl-colbench", "-m", MODEL, "--client.base-url", url, "--no-push",
        "--no-rich", "--run.name", "run", "--env.taskset.input-path", folder / "tasks.jsonl", *words, cwd=folder,
    )  # fmt: skip


def run_verifiers(*words: str | Path, cwd: Path) -> Result:
    """Run a command of verifiers with the plug-in under the name that setup.py gives it."""
    plugin = cwd / "plugins" / "sweet_rl_colbench"
    plugin.parent.mkdir(exist_ok=True)
    if not plugin.exists():
        plugin.symlink_to(ROOT / "sweet_rl" / "integrations" / "verifiers_plugin")
    return run_tool(*words, cwd=cwd, PYTHONPATH=f"{ROOT}:{plugin.parent}")


def traces_of(folder: Path) -> Path:
    return folder / "outputs" / "run" / "traces.jsonl"


def rows_of(folder: Path) -> dict[str, dict]:
    """The graded dialogues of a run as rows of trajectories, by id; only episodes that are `ok` have a reward."""
    agents = [
        trace
        for episode in read_rows(traces_of(folder))
        for trace in episode["traces"]
        if episode["ok"] and trace["ok"] and trace["agent"]["name"] == "agent"
    ]
    return graded_again({trace["info"]["dialogue"]["id"]: trace["info"]["dialogue"] for trace in agents}, folder)


def test_a_run_that_was_continued_has_the_dialogues_and_rewards_of_the_scripts(served, folder):
    done = evaluate(folder, served.url, "-r", "2", "--env.taskset.agent-prompt-path", "mini_agent.txt")
    assert done.code == 0, done.err
    lines = traces_of(folder).read_text().splitlines(keepends=True)
    traces_of(folder).write_text("".join(lines[::2]))  # as if killed before the others were written
    config = folder / "outputs" / "run" / "configs" / "resolved" / "eval.json"
    resumed = run_verifiers(tool("vf-eval"), "@", config, "--resume", cwd=folder)
    assert resumed.code == 0, resumed.err
    ours = graded_by_scripts(
        folder, served.url, "mini", task_type="mini", best_of_n=2, agent_prompt_path="mini_agent.txt"
    )
    assert rows_of(folder) == ours
    assert len({row["reward"] for row in ours.values()}) > 1
    for episode in read_rows(traces_of(folder)):
        (trace,) = episode["traces"]
        assert trace["rewards"]["reward"]["score"] == trace["info"]["dialogue"]["reward"]
        assert trace["metrics"]["success"] == (trace["info"]["dialogue"]["reward"] == 1)


def test_colbench_with_a_model_as_the_human_equals_the_scripts(tmp_path):
    tasks = write_colbench_tasks(tmp_path, 4)
    with ApiServer(plays_colbench(tasks)) as server:
        words = ("--env.taskset.task-type", "code", "--sampling.temperature", "0.5")
        refused = evaluate(tmp_path, server.url, *words)
        assert refused.code != 0 and "--env.human.model" in refused.err
        done = evaluate(tmp_path, server.url, *words, "--env.human.model", MODEL, "--clean")
        assert done.code == 0, done.err
        asked = [body for _, body in server.requests]
        ours = graded_by_scripts(tmp_path, server.url, MODEL, temperature=0.5)
    assert rows_of(tmp_path) == ours
    assert sorted(row["reward"] for row in ours.values()) == [0, 0, 1, 1]
    for body in asked:  # the temperature of the run is the agent's
        assert body["temperature"] == (0 if "<hidden_code>" in body["messages"][-1]["content"] else 0.5)
    assert {t["agent"]["trainable"] for e in read_rows(traces_of(tmp_path)) for t in e["traces"]} == {True, False}


def test_a_dead_server_gives_no_reward(folder):
    done = evaluate(folder, "http://127.0.0.1:9/v1")
    assert done.code == 0, done.err
    for episode in read_rows(traces_of(folder)):
        assert not episode["ok"] and not any(trace["ok"] or trace["rewards"] for trace in episode["traces"])


def test_a_human_whose_server_is_dead_leaves_the_agent_without_a_reward(served, folder):
    dead = ("--env.human.client.type", "eval", "--env.human.client.base-url", "http://127.0.0.1:9/v1")
    model = ("--env.taskset.scripted-human", "None", "--env.human.model", MODEL)
    done = evaluate(folder, served.url, "-n", "1", *model, *dead)
    assert done.code == 0, done.err
    (episode,) = read_rows(traces_of(folder))
    assert not episode["ok"] and {trace["agent"]["name"] for trace in episode["traces"]} == {"agent", "human"}
    assert not any(trace["ok"] or trace["rewards"] for trace in episode["traces"])


def test_a_model_that_is_told_how_to_answer_succeeds(folder):
    tasks = make_tasks(3, seed=4)

    def answer(body: dict) -> Reply:  # a model that does what it is told, and nothing else
        messages = body["messages"]
        task = next(task for task in tasks if task["problem_description"] in messages[0]["content"])
        if len(messages) == 1:
            return chat_reply("Is there a maximum?")
        marker = "I WANT TO ANSWER:" if "I WANT TO ANSWER:" in messages[0]["content"] else "Here it is:"
        return chat_reply(f"{marker}\n```python\n{task['ground_truth']}\n```")

    with ApiServer(answer) as server:
        done = evaluate(folder, server.url)
    assert done.code == 0, done.err
    for episode in read_rows(traces_of(folder)):
        (trace,) = episode["traces"]
        assert trace["ok"] and trace["metrics"]["success"] == 1.0
