"""A benchmark whose models are called by another tool."""

import asyncio

import pytest

from sweet_rl.dialogues.mini.tasks import TEST_SEED, make_tasks
from sweet_rl.integrations.benchmark import Benchmark
from sweet_rl.models.base import Completion, ModelError
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task
from tests.support.command_line import write_rows


class Says:
    """An agent with these replies, in turn; an exception is raised."""

    chat = None

    def __init__(self, *replies: str | Exception) -> None:
        self.left = list(replies)

    async def complete(self, messages, sampling) -> list[Completion]:
        reply = self.left.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return [Completion(reply, None, None, "stop", len(messages), 1)]


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    return Benchmark("mini", grading={"sandbox": "none", "workers": 1})


@pytest.fixture(scope="module")
def tasks(benchmark):
    return benchmark.load_tasks()


@pytest.fixture
def task(tasks):
    return tasks[0]


def test_the_mini_tasks_are_those_of_the_test_file(benchmark, tasks):
    assert [task.ground_truth for task in tasks[:3]] == [row["ground_truth"] for row in make_tasks(3, TEST_SEED)]
    assert len(tasks) == 400
    for path, told in ((None, True), ("mini_agent.txt", False)):
        (message,) = Benchmark("mini", agent_prompt_path=path).opening(tasks[0])
        opening = message["content"]
        assert tasks[0].problem_description in opening and ("I WANT TO ANSWER:" in opening) == told


def test_a_right_answer_gets_a_reward_of_1(benchmark, task):
    agent = Says("Is there a maximum?", f"I WANT TO ANSWER:\n{task.ground_truth}")
    trajectory = asyncio.run(benchmark.play(task, agent, sample=3))
    assert (trajectory.id, trajectory.ending, trajectory.turns) == (f"{task.id}-3", "answered", 2)
    graded = asyncio.run(benchmark.grade(trajectory))
    assert graded.reward == 1.0 and len(graded.grade["tests"]) == 10


def test_a_failed_dialogue_is_a_record(benchmark, task):
    error = ModelError("server", "the server is gone")
    trajectory = asyncio.run(benchmark.play(task, Says("Why?", error)))
    assert trajectory.failure == {"side": "agent", "kind": "server", "message": "the server is gone"}
    assert (trajectory.ending, asyncio.run(benchmark.grade(trajectory)).reward) == ("failed", None)


def test_a_model_that_plays_the_human_is_recorded_with_its_settings_and_the_window(monkeypatch):
    monkeypatch.setattr(Benchmark, "_renderer", None)
    prompt, found = "Be kind. {problem_description} {ground_truth} {dialogue} {pictures}", []
    human = {"temperature": 0.7, "max_tokens": 256}
    for domain, grading in (("code", {}), ("html", {"page_width": 800})):
        played = Benchmark(domain, None, None, user_prompt_path=prompt, human=human, grading=grading)
        dialogue = played.play(Task("p", "g"), Says("I WANT TO ANSWER: x"), Says(), "org/Model-8B")
        found.append(asyncio.run(dialogue).human)
    assert found == [{"name": "Model-8B", "hash": digits} for digits in ("386237b241514650", "78dba5ee49304eec")]


def test_what_cannot_work_is_one_message(tmp_path):
    for settings, words in (
        ({"task_type": "code", "scripted_human": "robot"}, "robot.*mini"),
        ({"task_type": "code", "grading": {"time": 1}}, "grading.*time.*timeout"),
        ({"task_type": "code", "human": {"chars": 1}}, "human.*chars.*max_chars"),
        ({"task_type": "mini", "max_turns": 0}, "max_turns"),
    ):
        with pytest.raises(UserError, match=words):
            Benchmark(**settings)
    with pytest.raises(UserError, match="input_path"):
        Benchmark("code").load_tasks()
    plain = {"problem_description": "p", "ground_truth": "def f(): return 1", "test_cases": {"test1": "f()"}}
    path = str(write_rows(tmp_path / "tasks.jsonl", [plain]))
    assert Benchmark("code", path).load_tasks()[0].ground_truth == plain["ground_truth"]
