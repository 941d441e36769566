"""The command lines of scripts/simulate_interactions.py and scripts/sample_best_of_n.py."""

import json
from pathlib import Path

import pytest

from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.records import Task, Trajectory, TurnCandidates, read_records
from tests.support.api_server import MODEL, ApiServer, chat_reply
from tests.support.command_line import call, read_rows, write_rows

TASKS = [Task(f"Write number {n}: def f(x)", f"def f(x): return x * {n}", {"test1": "f(1)"}) for n in range(4)]


def lines(path: Path) -> dict[str, dict]:
    return {row["id"]: row for row in read_rows(path)}


@pytest.fixture(scope="module")
def human():
    with ApiServer(lambda body: chat_reply("I don't know.")) as server:
        yield server


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("place")
    write_rows(place / "tasks.jsonl", TASKS)
    return place


@pytest.fixture(scope="module")
def simulate(place, human, tiny_agent):
    def simulate(**flags):
        usual = {
            "agent_model": tiny_agent, "env_model": MODEL, "hostname": human.url, "task_type": "code",
            "input_path": place / "tasks.jsonl", "output_path": place / "trajectories.jsonl", "best_of_n": 2,
            "max_tokens": 20, "max_turns": 3, "agent_prompt_path": "mini_agent.txt",
        }  # fmt: skip
        return {**usual, **flags}

    return simulate


@pytest.fixture(scope="module")
def trajectories(place, simulate):
    result = call("simulate_interactions.py", **simulate())
    assert result.code == 0, result.err
    return result


@pytest.mark.slow
def test_dialogues_are_written_with_a_summary_and_a_manifest(place, trajectories):
    records = read_records(place / "trajectories.jsonl", Trajectory)
    assert {t.id for t in records} == {f"{task.id}-{sample}" for task in TASKS for sample in range(2)}
    assert all(t.parts and t.tokenizer and t.ending == "turn_limit" for t in records)
    assert "dialogues: 8" in trajectories.out and '"turn_limit": 8' in trajectories.out
    manifest = json.loads((place / "trajectories.jsonl.manifest.json").read_text())
    assert manifest["status"] == "finished" and manifest["summary"]["turns"] == 24
    assert manifest["summary"]["failures"] == {} and manifest["summary"]["simulator_leaks"] == 0


@pytest.mark.slow
def test_candidates_of_every_turn(place, trajectories, tiny_agent):
    target = place / "candidates.jsonl"
    flags = {
        "data_path": place / "trajectories.jsonl", "model_id": tiny_agent, "save_path": target,
        "best_of_n": 3, "max_tokens": 15, "data_fraction": 0.5,
    }  # fmt: skip
    result = call("sample_best_of_n.py", **flags)
    assert result.code == 0, result.err
    assert "candidates: 36" in result.out
    records = read_records(target, TurnCandidates)
    assert len({record.task.id for record in records}) == 2 and len(records) == 2 * 2 * 3
    by_id = {t.id: t for t in read_records(place / "trajectories.jsonl", Trajectory)}
    chat = ChatFormat.from_pretrained(tiny_agent)
    for record in records:
        trajectory = by_id[record.id.rpartition("-")[0]]
        said = [row for row in trajectory.dialogue_history if row["role"] == "assistant"][record.turn]
        assert record.older_output == said["output"]
        assert record.task.ground_truth not in json.dumps(record.input)
        prompt = chat.encode(record.input, record.tokenizer)[0]
        assert prompt == chat.encode(trajectory.parts, trajectory.tokenizer)[0][: len(prompt)]
        assert [len(ids) for ids in record.additional_token_ids] == [
            len(v) for v in record.additional_reference_logprobs
        ]
        assert len(set(map(tuple, record.additional_token_ids))) == 3
    assert "already complete" in call("sample_best_of_n.py", **flags).out
    assert call("sample_best_of_n.py", **{**flags, "best_of_n": 4}).code == 2
    assert call("sample_best_of_n.py", **{**flags, "input_path": "other.jsonl"}).code == 2
