"""Which dialogues a run plays, its progress, and its summary."""

import asyncio
import io
from functools import partial

import pytest

from sweet_rl.dialogues import AnswerEnvironment, HumanReply
from sweet_rl.dialogues import collect as module
from sweet_rl.dialogues.collect import CollectionSettings, Progress, collect, summarise_dialogues
from sweet_rl.dialogues.play import DialogueSetup
from sweet_rl.models.base import Completion, Sampling
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task
from sweet_rl.runs.run import open_run

TASKS = [Task(f"task {number}", "", id=f"t{number}") for number in range(3)]


class Agent:
    chat = None

    def __init__(self) -> None:
        self.checked = self.closed = self.asked = 0

    async def check(self):
        self.checked += 1

    async def close(self):
        self.closed += 1

    async def complete(self, messages, sampling):
        self.asked += 1
        return [Completion("I WANT TO ANSWER: x", None, None, "stop", 5, 2)]

    def summary(self):
        return {"calls": self.asked}


class Human:
    closed = 0

    async def reply(self, task, dialogue, seed):
        return HumanReply("?")

    async def close(self):
        self.closed += 1


def collected(path, jobs):
    agent, human = Agent(), Human()
    begin = partial(AnswerEnvironment, agent_prompt="{problem_description}", max_turns=5)
    both = DialogueSetup(agent, human, begin, Sampling())
    with open_run(path, {}) as output:
        summary = asyncio.run(collect(output, jobs, both, 2, {"policy": agent}))
        return summary, sorted(output.done), agent, human


def test_a_continued_run_plays_only_what_is_missing_and_summarises_all(tmp_path):
    jobs = CollectionSettings(dialogues_per_task=2).jobs(TASKS)
    first, done, _, _ = collected(tmp_path / "t.jsonl", jobs[:4])
    assert first["dialogues"] == 4 and done == ["t0-0", "t0-1", "t1-0", "t1-1"]
    second, done, agent, human = collected(tmp_path / "t.jsonl", jobs)
    assert second["dialogues"] == 6 and agent.asked == 2 and len(done) == 6
    assert second["policy"] == {"calls": 2} and second["tokens"]["agent_completion_tokens"] == 12
    assert (agent.checked, agent.closed, human.closed) == (1, 1, 1)


def test_the_dialogues_of_a_run_are_the_samples_of_each_task():
    assert CollectionSettings(dialogues_per_task=2).jobs(TASKS[:2]) == [
        (TASKS[0], 0), (TASKS[0], 1), (TASKS[1], 0), (TASKS[1], 1),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["num_tasks", "dialogues_per_task", "max_turns", "concurrency"])
def test_a_number_below_one_is_refused(name):
    with pytest.raises(UserError, match=f"--{name}"):
        CollectionSettings(**{name: 0})


ROWS = [
    {"dialogue_history": [{"role": "user"}, {"role": "assistant", "content": "x"}] * turns, "ending": ending, **more}
    | ({"leaks": leaks} if leaks else {})
    for turns, ending, leaks, more in [
        (2, "answered", 0, {"usage": {"agent": {"completion_tokens": 10}, "human": {"completion_tokens": 3}}}),
        (4, "turn_limit", 2, {"usage": {"agent": {"completion_tokens": 30}}}),
        (1, "failed", 3, {"failure": {"kind": "timeout", "side": "human", "message": "late"}}),
    ]
]


def test_without_settings_each_task_is_played_once_in_the_ten_turns_of_the_paper():
    assert (CollectionSettings().dialogues_per_task, CollectionSettings().max_turns) == (1, 10)


def test_the_summary_counts_endings_failures_turns_tokens_and_leaks():
    assert summarise_dialogues(ROWS) == {
        "dialogues": 3,
        "humans": {"not recorded": 3},
        "endings": {"answered": 1, "failed": 1, "turn_limit": 1},
        "failures": {"human: timeout": 1},
        "turns": 7,
        "turns_per_dialogue": 2.33,
        "empty_messages": 0,
        "cut_messages": 0,
        "dialogues_with_empty_or_cut_messages": 0,
        "dialogues_too_long_for_the_agent": 0,
        "simulator_leaks": 5,
        "dialogues_with_leaks": 2,
        "tokens": {"agent_completion_tokens": 40, "human_completion_tokens": 3},
        "first_messages": {"human: timeout": "late"},
    }
    assert summarise_dialogues([])["turns_per_dialogue"] == 0.0


def test_speeds_are_those_of_the_dialogues_of_this_process():
    summary = summarise_dialogues(ROWS, seconds=2.0, before=1)
    assert summary["seconds"] == 2.0
    assert (summary["dialogues_per_second"], summary["turns_per_second"]) == (1.0, 2.5)
    assert (summary["agent_tokens_per_second"], summary["human_tokens_per_second"]) == (15.0, 0.0)
    assert "seconds" not in summarise_dialogues(ROWS, seconds=2.0, before=3)


def test_progress_gives_the_speeds_of_the_last_minute(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    file = io.StringIO()
    with Progress(4, file=file) as progress:
        progress.on_message("agent", 30)
        progress.on_message("human", 8)
        now[0] += 2
        assert progress.speeds() == {"turns": 0.5, "agent": 15.0, "human": 4.0}
        now[0] += 58
        progress.on_message("agent", 30)  # a file shows a line every 30 seconds
        now[0] += 59
        progress.on_message("agent", 0)
        now[0] += 1
        assert progress.speeds() == {"turns": 1 / 60, "agent": 0.0, "human": 0.0}
        progress.on_dialogue(failed=True)
    assert "failed 1" in file.getvalue()
