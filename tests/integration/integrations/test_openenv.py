"""The OpenEnv server with OpenEnv's own client: dialogues and rewards are those of `Benchmark.play`."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

pytest.importorskip("openenv.core", reason="needs an environment of its own: pip install 'sweet_rl[openenv]'")

from openenv.core import GenericEnvClient  # noqa: E402

from sweet_rl.integrations.benchmark import Benchmark, CalledModel, load_critic  # noqa: E402
from sweet_rl.integrations.openenv import (  # noqa: E402
    AgentMessage,
    ColBenchEnvironment,
    HTTPException,
    OwnClients,
    make_app,
)
from sweet_rl.models.base import Completion, ModelError  # noqa: E402
from sweet_rl.runs.records import Task, Trajectory  # noqa: E402
from tests.support.command_line import ROOT  # noqa: E402
from tests.support.launched import ENVIRONMENT, free_port  # noqa: E402

pytestmark = pytest.mark.slow
GRADING = {"sandbox": "limits", "workers": 1}
CRITIC = {"critic_type": "pmi", "model_id": "mini"}
ASK = "Is there a maximum?"


def post(url: str, body: dict) -> tuple[int, dict]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    port = free_port()
    words = ["--task_type", "mini", "--port", port, "--grading", json.dumps(GRADING), "--critic", json.dumps(CRITIC)]
    log = tmp_path_factory.mktemp("server") / "log"
    with log.open("w") as output:
        server = subprocess.Popen(
            [sys.executable, ROOT / "scripts" / "serve_openenv.py", *words],
            env=ENVIRONMENT,
            stdout=output,
            stderr=output,
        )
    try:
        while True:
            assert server.poll() is None, log.read_text()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health"):
                    break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    return Benchmark("mini", grading=GRADING)


@pytest.fixture(scope="module")
def tasks(benchmark) -> list[Task]:
    return benchmark.load_tasks()


def answer_to(task: Task) -> str:
    return f"I WANT TO ANSWER:\n{task.ground_truth}"


def played(benchmark: Benchmark, task: Task, sample: int, *replies: str) -> Trajectory:
    """The graded dialogue of an agent with these replies, without a server."""
    left = list(replies)

    async def call(messages, sampling) -> Completion:
        return Completion(left.pop(0), None, None, "stop")

    return asyncio.run(benchmark.grade(asyncio.run(benchmark.play(task, sample, CalledModel(call), None))))


def test_a_dialogue_over_the_server_is_that_of_the_scripts_with_its_reward_and_credit(url, benchmark, tasks):
    task = tasks[3]
    expected = played(benchmark, task, 2, ASK, answer_to(task))
    with GenericEnvClient(url).sync() as session:
        begun = session.reset(seed=2 * len(tasks) + 3)
        assert (begun.reward, begun.done) == (None, False)
        assert begun.observation["messages"] == [{"role": "user", "content": begun.observation["message"]}]
        asked = session.step({"message": ASK})
        assert (asked.reward, asked.done) == (0.0, False)
        assert asked.observation["message"] == expected.dialogue_history[2]["content"]
        ended = session.step({"message": answer_to(task)})
    assert (ended.reward, ended.done, ended.observation["ending"]) == (1.0, True, "answered")
    said = [(message["role"], message["content"]) for message in ended.observation["messages"]]
    assert said == [(message["role"], message["content"]) for message in expected.dialogue_history]
    (credit,) = asyncio.run(load_critic(CRITIC, "").credit([expected]))
    assert ended.observation["turn_credit"] == pytest.approx(credit, abs=1e-4) and any(credit)


def test_nothing_tells_the_agent_the_reference_solution_or_the_tests(url, tasks):
    task = tasks[0]
    with GenericEnvClient(url).sync() as session:
        begun = session.reset(task_id=task.id, seed=0, episode_id="e")
        heard = [begun, session.step({"message": ASK})]
        state = session.state()
        heard.append(session.step({"message": "I WANT TO ANSWER:\ndef wrong(x):\n    return None"}))
        heard_of = json.dumps([[vars(one) for one in heard], state, session.state()])
    assert heard[-1].done and heard[-1].reward == 0.0
    assert (state["task_id"], state["episode_id"], state["step_count"]) == (task.id, "e", 1)
    body = task.ground_truth.split(":\n", 1)[1].strip()
    for secret in (task.ground_truth, body, *task.test_cases.values()):
        assert json.dumps(secret)[1:-1] not in heard_of


def test_sessions_at_the_same_time_hear_what_each_would_hear_alone(url, benchmark, tasks):
    replies = [["Is there a maximum?", "Is there a minimum?", answer_to(tasks[n])] for n in range(4)]
    alone = [played(benchmark, tasks[n], 0, *replies[n]) for n in range(4)]

    async def all_at_once() -> list[list]:
        clients = [GenericEnvClient(url) for _ in alone]
        await asyncio.gather(*(client.connect() for client in clients))
        await asyncio.gather(*(client.reset(seed=n) for n, client in enumerate(clients)))
        for turn in range(3):
            orders = zip(clients, replies, strict=True)
            results = await asyncio.gather(*(client.step({"message": own[turn]}) for client, own in orders))
        await asyncio.gather(*(client.close() for client in clients))
        return [[result.reward, *(one["content"] for one in result.observation["messages"])] for result in results]

    expected = [[one.reward, *(message["content"] for message in one.dialogue_history)] for one in alone]
    assert asyncio.run(all_at_once()) == expected
    assert len({str(one) for one in expected}) == 4


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ({}, '{"message": TEXT}.*message: Field required'),
        ({"message": 3}, "message: Input should be a valid string"),
        ({"mesage": "x"}, "mesage: Extra inputs"),
        ({"message": "\ud800"}, "message: surrogates not allowed"),
    ],
)
def test_a_bad_action_is_refused_with_its_field_and_the_dialogue_goes_on(url, action, words):
    with GenericEnvClient(url).sync() as session:
        session.reset(seed=0)
        with pytest.raises(RuntimeError, match=words):
            session.step(action)
        assert session.step({"message": ASK}).observation["message"]


def test_a_reset_that_cannot_be_is_refused_with_what_it_takes(url, tasks):
    with GenericEnvClient(url).sync() as session:
        with pytest.raises(RuntimeError, match="reset first"):
            session.step({"message": ASK})
        for wrong, words in (
            ({"seed": -1}, "seed is -1"), ({"seed": "one"}, "seed is 'one'"), ({"task": "x"}, "not 'task'"),
            ({"task_id": "nowhere"}, f"no task 'nowhere' among the 400: {tasks[0].id}"),
        ):  # fmt: skip
            with pytest.raises(RuntimeError, match=words):
                session.reset(**wrong)
        session.reset(task_id=tasks[1].id)
        assert session.step({"message": answer_to(tasks[1])}).done
        with pytest.raises(RuntimeError, match="reset first"):
            session.step({"message": ASK})


def test_a_post_is_a_session_of_its_own_and_says_so(url):
    status, begun = post(f"{url}/reset", {"seed": 1})
    assert status == 200 and begun["observation"]["message"]
    status, refused = post(f"{url}/step", {"action": {"message": ASK}})
    assert status == 409 and "WebSocket" in refused["detail"]
    status, refused = post(f"{url}/step", {"action": {"message": None}})
    assert status == 422 and "message" in refused["detail"]


class NoHuman:
    """A model that does not answer."""

    async def complete(self, messages, sampling):
        raise ModelError("connection", "refused")


def test_a_human_that_fails_gives_an_error_and_no_reward(tasks):
    environment = ColBenchEnvironment(
        Benchmark("mini", scripted_human=None), {task.id: task for task in tasks}, NoHuman(), "gone"
    )

    async def session() -> None:
        for _ in range(2):
            await environment.reset_async(seed=0)
            with pytest.raises(HTTPException, match="502.*human: connection;"):
                await environment.step_async(AgentMessage(message=ASK))

    asyncio.run(session())


class Echo:
    """A human's server that repeats its prompt, which has the reference solution, in its error."""

    async def complete(self, messages, sampling):
        raise ModelError("refused", messages[0]["content"])


def test_no_failure_tells_the_agent_what_a_server_or_the_reference_wrote(caplog):
    broken = Task("Add.", "def add(x):\n    return {}['SECRET']", {"t": "add(1)"}, id="broken")
    environment = ColBenchEnvironment(Benchmark("code", grading=GRADING), {"broken": broken}, Echo(), "echo")

    async def message_after(words: str) -> str:
        await environment.reset_async(task_id="broken")
        with pytest.raises(HTTPException, match="^502: broken: ") as raised:
            await environment.step_async(AgentMessage(message=words))
        return str(raised.value)

    for words in ("What is it?", "I WANT TO ANSWER:\n```python\ndef add(x):\n    return x\n```"):
        caplog.clear()
        assert "SECRET" not in asyncio.run(message_after(words))
        assert "SECRET" in caplog.text, "the one who runs the server is not told"


def test_a_message_of_any_length_and_a_task_of_any_kind_is_answered(benchmark, tasks):
    with pytest.raises(HTTPException, match="422.*message: it has 200001 characters"):
        AgentMessage.model_validate({"message": "a" * 200_001})
    environment = ColBenchEnvironment(benchmark, {task.id: task for task in tasks})
    for task_id in ([], {}, 5):
        with pytest.raises(HTTPException, match="404: there is no task"):
            asyncio.run(environment.reset_async(task_id=task_id))


@pytest.mark.parametrize(
    ("host", "headers", "served"),
    [
        ("127.0.0.1", {"host": "localhost:8000"}, True),
        ("127.0.0.1", {"host": "[::1]:8000", "origin": "http://[::1]:8000"}, True),
        ("127.0.0.1", {"host": "evil.example:8000"}, False),  # a name that leads to this machine
        ("127.0.0.1", {"host": "127.0.0.1:8000", "origin": "http://evil.example"}, False),
        ("127.0.0.1", {"host": "127.0.0.1:8000", "origin": "null"}, False),
        ("127.0.0.1", {}, False),
        ("0.0.0.0", {"host": "node7:8000"}, True),  # noqa: S104
        ("0.0.0.0", {"host": "node7:8000", "origin": "http://evil.example"}, False),  # noqa: S104
    ],
)
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_pages_of_other_sites_are_refused(kind, host, headers, served):
    reached, sent = [], []

    async def app(scope, receive, send) -> None:
        reached.append(scope["type"])

    async def send(message) -> None:
        sent.append(message)

    scope = {"type": kind, "headers": [(name.encode(), value.encode()) for name, value in headers.items()]}
    asyncio.run(OwnClients(app, host)(scope, None, send))
    assert bool(reached) == served
    if not served:
        assert sent[0].get("status") == 403 or sent == [{"type": "websocket.close", "code": 1008}]


def test_a_session_that_is_closed_leaves_nothing_running(benchmark, tasks):
    async def session() -> int:
        environment = ColBenchEnvironment(benchmark, {task.id: task for task in tasks})
        for seed in range(2):
            await environment.reset_async(seed=seed)  # the second ends the first
        await asyncio.to_thread(environment.close)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return len(asyncio.all_tasks())

    assert asyncio.run(session()) == 1


def test_a_session_that_its_client_has_closed_is_no_error_of_the_server(benchmark):
    app = make_app(benchmark, None, "", None, max_sessions=1)
    received = iter([{"type": "websocket.connect"}, {"type": "websocket.disconnect", "code": 1000}])
    sent = []

    async def receive() -> dict:
        return next(received)

    async def send(message: dict) -> None:
        sent.append(message["type"])
        if message["type"] == "websocket.close":
            raise OSError("the client has closed the connection")

    asyncio.run(app({"type": "websocket", "path": "/ws", "query_string": b"", "headers": []}, receive, send))
    assert sent == ["websocket.accept", "websocket.close"]
