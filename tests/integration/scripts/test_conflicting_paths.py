"""Scripts whose paths conflict stop before any work and leave everything as it was."""

from __future__ import annotations

import pytest

from sweet_rl.runs.records import Task, Trajectory
from tests.support.command_line import call, contents, write_rows


@pytest.fixture()
def place(tmp_path):
    task = Task("Write f(x)", "def f(x): return x", {"t": "f(1)"})
    dialogue = [{"role": "user", "content": "Write f(x)"}, {"role": "assistant", "content": "def f(x): return x"}]
    write_rows(tmp_path / "tasks.jsonl", [task])
    write_rows(tmp_path / "t.jsonl", [Trajectory(task, dialogue, "def f(x): return x", id=str(n)) for n in range(3)])
    return tmp_path


@pytest.mark.parametrize(
    ("script", "flags", "words"),
    [
        ("evaluate_code.py", {"best_path": "t.jsonl"}, "also the input"),
        ("evaluate_code.py", {"best_path": "o.jsonl"}, "also another output"),
        ("simulate_interactions.py", {"output_path": "tasks.jsonl"}, "also the input"),
        ("compare_runs.py", {"output_path": "c.json", "markdown_path": "./c.json"}, "also another output"),
    ],
)
def test_a_conflict_is_found_before_any_work(place, monkeypatch, script, flags, words):
    monkeypatch.chdir(place)
    given = {
        "evaluate_code.py": {"input_path": "t.jsonl", "output_path": "o.jsonl", "tokenizer": "none.here"},
        "simulate_interactions.py": {
            "input_path": "tasks.jsonl", "output_path": "o.jsonl", "agent_model": "m", "env_model": "m",
            "agent_hostname": "127.0.0.1:9", "hostname": "127.0.0.1:9", "agent_tokenizer": "none",
        },
        "compare_runs.py": {"runs": "a=t.jsonl,b=tasks.jsonl"},
    }[script]  # fmt: skip
    before = contents(place)
    done = call(script, **{**given, **flags})
    assert done.code == 2 and words in done.err and "Traceback" not in done.err, done.err
    assert contents(place) == before
