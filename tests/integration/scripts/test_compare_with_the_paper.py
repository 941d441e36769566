"""docs/evaluate.md for one model on a server: play under the released protocol, grade, stand in a row."""

import hashlib

import pytest

from sweet_rl.dialogues import released
from sweet_rl.dialogues.released import ProtocolFile
from sweet_rl.runs.records import Task
from tests.support.api_server import MODEL, ApiServer, chat_reply
from tests.support.command_line import call, write_rows

AGENT, HUMAN = "Ask about the function.", "{problem_description} {hidden_information} {dialogue_history}"
TASKS = [Task(f"fee {i}", f"def fee(w): return {i} * w", {"test1": "fee(1)", "test2": "fee(4)"}) for i in range(12)]


@pytest.fixture
def protocol_files(tmp_path, monkeypatch):
    for name, text in (("BACKEND_AGENT", AGENT), ("BACKEND_HUMAN", HUMAN)):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(released, name, ProtocolFile(name, hashlib.sha256(text.encode()).hexdigest()))
    return tmp_path


@pytest.mark.parametrize("protocol", ["released", "sweet_rl"])
def test_from_a_models_name_to_a_row_beside_the_papers(protocol, protocol_files, tmp_path):
    def reply(body: dict):
        """The agent asks once, then doubles; the human repeats the question."""
        if not any(message["role"] == "assistant" for message in body["messages"]):
            return chat_reply("Which rate?")
        return chat_reply("I WANT TO ANSWER:\ndef fee(w): return 2 * w")

    write_rows(tmp_path / "tasks.jsonl", [task.to_dict() for task in TASKS])
    files = [str(tmp_path / f"{name}.jsonl") for name in ("dialogues", "graded")]
    released = {"protocol": protocol, "protocol_files": protocol_files}
    with ApiServer(reply) as server:
        played = call(
            "simulate_interactions.py", config="../configs/paper/backend/evaluation.yaml", **released,
            agent_model=MODEL, env_model=MODEL, agent_hostname=server.url, hostname=server.url,
            human_name="Llama-3.1-70B-Instruct", input_path=tmp_path / "tasks.jsonl", output_path=files[0],
        )  # fmt: skip
    assert played.code == 0, played.err
    graded = call("evaluate_code.py", input_path=files[0], output_path=files[1], paper_grader=True)
    assert graded.code == 0, graded.err
    shown = call("compare_runs.py", runs=f"SWEET-RL={files[1]}", paper="table2").out
    blocks = [line.split() for line in shown.splitlines() if line.startswith("SWEET-RL")]  # of one row: 100 columns
    row = [blocks[0][0], *(cell for block in blocks for cell in block[1:])]
    # one task of twelve is solved, that whose rate is 2; of the task with rate 0 and all others no test is passed
    assert row[1:4] == ["1", "8.3", "8.3"] and row[-3:] == ["56.8", "40.4", "Llama-3.1-8B-Instruct"]
    paper, here = (line for line in shown.splitlines() if line.startswith(("paper: ", "here: ")))
    assert "1,000 tasks" in paper and "12 tasks" in here and f"protocol {protocol}" in here
