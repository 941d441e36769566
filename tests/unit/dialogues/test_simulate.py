"""Which dialogues a run plays, what it writes, and its summary and estimate."""

from collections import Counter

import pytest

from sweet_rl.dialogues import Domain, HumanReply, HumanSettings
from sweet_rl.dialogues import simulate as module
from sweet_rl.dialogues.simulate import CollectionSettings, PlayerSettings, Simulation, estimate, summarise_dialogues
from sweet_rl.models.base import Completion, Sampling
from sweet_rl.models.settings import CallSettings, ModelSettings
from sweet_rl.rendering.settings import BrowserSettings
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, Trajectory, read_records
from sweet_rl.runs.step import StepSettings
from tests.support.command_line import write_rows

TASKS = [Task(f"task {number}", "x" * 40, id=f"t{number}") for number in range(3)]
SERVER = ModelSettings(hostname="localhost:1", tokenizer=None)


class Agent:
    chat = None

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    async def check(self):
        self.calls["check"] += 1

    async def close(self):
        self.calls["close"] += 1

    async def complete(self, messages, sampling):
        self.calls["complete"] += 1
        return [Completion("I WANT TO ANSWER: x", None, None, "stop", 5, 2)]

    def summary(self):
        return {"calls": self.calls["complete"]}


class Client:
    async def reply(self, task, dialogue, seed):
        return HumanReply("?")


def simulation(per_task: int = 1, num_tasks: int | None = None, human: str = "client") -> Simulation:
    mine = Domain("mine", reward=lambda task, answer: 1.0, scripted_humans={"client": Client},
                  human_prompt="code_user.txt")  # fmt: skip
    collection = CollectionSettings(num_tasks, per_task)
    return Simulation(
        mine, PlayerSettings("a", human), collection, Sampling(), SERVER, SERVER, CallSettings(), HumanSettings(),
        BrowserSettings(),
    )  # fmt: skip


def test_a_continued_run_plays_only_what_is_missing_and_summarises_all(tmp_path, monkeypatch):
    agent = Agent()
    monkeypatch.setattr(module, "load_model", lambda *given: agent)
    tasks, output = write_rows(tmp_path / "tasks.jsonl", [t.to_dict() for t in TASKS]), str(tmp_path / "out.jsonl")
    first = simulation(2).run(str(tasks), output, StepSettings())
    assert (
        first["dialogues"] == 6 and first["agent"] == {"calls": 6} and first["tokens"]["agent_completion_tokens"] == 12
    )
    lines = (tmp_path / "out.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "out.jsonl.manifest.json").unlink()
    agent.calls.clear()
    (tmp_path / "again.jsonl").write_text("")
    again = simulation(2).run(str(tasks), str(tmp_path / "other.jsonl"), StepSettings())
    assert again["dialogues"] == 6 and agent.calls == {"check": 1, "complete": 6, "close": 1}
    assert (tmp_path / "other.jsonl").read_text().splitlines(keepends=True) == lines
    assert [t.id for t in read_records(tmp_path / "other.jsonl", Trajectory)] == [
        f"t{task}-{sample}" for task in range(3) for sample in range(2)
    ]


def test_all_dialogues_failing_is_an_error_that_says_so(tmp_path, monkeypatch):
    class Broken(Agent):
        async def complete(self, messages, sampling):
            raise ValueError("no such thing")

    monkeypatch.setattr(module, "load_model", lambda *given: Broken())
    tasks = write_rows(tmp_path / "tasks.jsonl", [t.to_dict() for t in TASKS])
    with pytest.raises(UserError, match="all 3 dialogues failed.*--retry_failed"):
        simulation().run(str(tasks), str(tmp_path / "out.jsonl"), StepSettings())
    (one, *_) = read_records(tmp_path / "out.jsonl", Trajectory)
    assert one.failure == {"kind": "ValueError", "message": "no such thing", "side": "agent"}


ROWS = [
    {"dialogue_history": [{"role": "user"}, {"role": "assistant", "content": "x"}] * turns, "ending": ending, **more}
    | ({"leaks": leaks} if leaks else {})
    for turns, ending, leaks, more in [
        (2, "answered", 0, {"usage": {"agent": {"completion_tokens": 10}, "human": {"completion_tokens": 3}}}),
        (4, "turn_limit", 2, {"usage": {"agent": {"completion_tokens": 30}}}),
        (1, "failed", 3, {"failure": {"kind": "timeout", "side": "human", "message": "late"}}),
    ]
]


def test_the_summary_counts_endings_failures_turns_tokens_and_leaks():
    counts = {
        "dialogues": 3,
        "endings": {"answered": 1, "failed": 1, "turn_limit": 1},
        "failures": {"human: timeout": 1},
        "turns": 7,
        "turns_per_dialogue": 2.33,
        "cut_messages": 0,
        "dialogues_too_long_for_the_agent": 0,
        "simulator_leaks": 5,
        "dialogues_with_leaks": 2,
        "tokens": {"agent_completion_tokens": 40, "human_completion_tokens": 3},
        "first_messages": {"human: timeout": "late"},
    }
    assert summarise_dialogues(ROWS) == counts


def test_the_estimate_is_an_upper_bound_of_calls_and_tokens():
    costs = estimate(TASKS, 3, {"agent": "p" * 34, "human": "p" * 34}, candidates=2)
    # agent: 3 turns read 10 tokens of prompt, and 0 + 1 + 2 earlier pairs of 2 x 100; it writes 2 x 100 + 10
    assert str(costs["agent"]) == "at most 18 calls, which read 1,890 tokens and write 1,260"
    # human: 2 replies read prompt 10, reference 10, the message 100; one earlier pair; replies of 100
    assert str(costs["human"]) == "at most 6 calls, which read 1,320 tokens and write 600"
