"""A script killed in the middle and started again ends with the same records as one never killed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import sweet_rl
from sweet_rl.mini.tasks import make_tasks
from tests.support.command_line import call, process, read_rows, write_rows

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (Path(sweet_rl.__file__).parent / "models" / "packaged" / "mini" / "config.json").is_file(),
        reason="the packaged tiny agent is not there",
    ),
]


@pytest.fixture(autouse=True, scope="module")
def as_in_processes():
    """This process computes as those that are killed: on the CPU, with one thread."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.cuda.is_available", lambda: False)
        torch.set_num_threads(1)
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Mini tasks, and dialogues about them that were never killed."""
    place = tmp_path_factory.mktemp("place")
    made = call("make_mini_tasks.py", num_train=10, num_test=2, output_dir=place)
    assert made.code == 0, made.err
    return place


def dialogues(place: Path, name: str) -> dict:
    return {
        "agent_model": "mini", "env_model": "mini", "input_path": place / "train.jsonl", "best_of_n": 2,
        "output_path": place / f"{name}.jsonl", "max_tokens": 100, "concurrency": 4,
    }  # fmt: skip


def grades(place: Path, name: str) -> dict:
    return {"input_path": place / "answers.jsonl", "output_path": place / f"{name}.jsonl", "workers": 1}


def credit(place: Path, name: str) -> dict:
    return {
        "model_id": "mini", "reference": "sampled", "input_path": place / "answers.jsonl",
        "output_path": place / f"{name}.jsonl",
    }  # fmt: skip


def candidates(place: Path, name: str) -> dict:
    return {
        "model_id": "mini", "data_path": place / "dialogues.jsonl", "save_path": place / f"{name}.jsonl",
        "best_of_n": 4, "max_tokens": 60, "concurrency": 2, "data_fraction": 0.3,
    }  # fmt: skip


def write_answers(place: Path) -> None:
    """Right answers, wrong ones and ones that never return, as a trajectories file."""
    rows = []
    for task in make_tasks(60, seed=3):
        header = task["ground_truth"].partition("\n")[0]
        for code in (task["ground_truth"], f"{header}\n    return 0", f"{header}\n    raise ValueError"):
            history = [{"role": "user", "content": ""}, {"role": "assistant", "content": code, "logprobs": [-1.0]}]
            rows.append({"task": task, "dialogue_history": history, "answer": code, "reward": None})
    write_rows(place / "answers.jsonl", rows)


def kill_in_the_middle(script: str, flags: dict, output: Path, after: int, whole: int) -> int:
    """Starts the script and kills it once `after` records are on disk. Returns how many there are then."""
    words, environment = process(script, **flags)
    with subprocess.Popen(
        words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as running:
        deadline = time.monotonic() + 240
        while not (output.exists() and output.read_bytes().count(b"\n") >= after):
            assert running.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline, "it wrote nothing"
            time.sleep(0.002)
        running.send_signal(signal.SIGKILL)
        running.wait()
        wait_for(lambda: not alive_in_session(running.pid), "children outlive the killed script")
    found = output.read_bytes().count(b"\n")
    assert after <= found < whole
    return found


def alive_in_session(leader: int) -> list[int]:
    """Processes of the session that a killed script led; only where there is /proc."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(session) == leader and state != "Z":
            found.append(int(folder.name))
    return found


def wait_for(holds: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)


def same(one, other) -> bool:
    """Equal, numbers with a fraction up to the rounding that the company in a batch makes."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, abs=1e-3)
    return one == other


@pytest.mark.parametrize(
    ("script", "flags", "name", "output"),
    [
        ("simulate_interactions.py", dialogues, "dialogues", "output_path"),
        ("evaluate_code.py", grades, "grades", "output_path"),
        ("score_turns.py", credit, "credit", "output_path"),
        ("sample_best_of_n.py", candidates, "candidates", "save_path"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.endswith(".py") else "",
)
def test_killed_twice_and_continued_it_has_the_records_of_a_run_never_killed(script, flags, name, output, place):
    if script in ("evaluate_code.py", "score_turns.py"):
        write_answers(place)
    elif script == "sample_best_of_n.py" and not (place / "dialogues.jsonl").exists():
        assert call("simulate_interactions.py", **dialogues(place, "dialogues")).code == 0
    done = call(script, **flags(place, name))
    assert done.code == 0, done.err
    whole = {row["id"]: row for row in read_rows(place / f"{name}.jsonl")}

    killed = flags(place, f"{name}_killed")
    path = killed[output]
    found = kill_in_the_middle(script, killed, path, 3, len(whole))
    with open(path, "ab") as file:
        file.write(b'{"id": "half a rec')
    kill_in_the_middle(script, killed, path, found + 3, len(whole))
    os.truncate(path, path.stat().st_size - 5)
    assert call(script, **killed).code == 0

    rows = read_rows(path)
    assert len(rows) == len(whole) and {row["id"] for row in rows} == set(whole)
    for row in rows:
        assert same(row, whole[row["id"]]), f"{row['id']} differs"
    again = call(script, **killed)
    assert again.code == 0 and "already complete" in again.out
