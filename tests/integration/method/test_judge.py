"""An LLM as a judge behind a real server."""

import json

from sweet_rl.runs.records import TurnCandidates, read_records
from tests.support.api_server import MODEL, ApiServer, chat_reply, refusal
from tests.support.command_line import call, check_call, write_rows
from tests.unit.method.test_judge import record, verdict_for_the_longer


def longer_wins(body: dict):
    return chat_reply(verdict_for_the_longer(body["messages"][0]["content"]))


def test_ranking_by_a_judge_is_continued_where_its_server_gave_out(tmp_path):
    rows = [record(["a", "bb", "ccc"], f"t-{i}").to_dict() for i in range(3)]
    source = write_rows(tmp_path / "candidates.jsonl", rows)
    flags = {"critic_type": "judge", "model_id": MODEL, "input_path": source, "output_path": tmp_path / "judged.jsonl"}
    down = []

    def answer(body):
        down.append(1)
        return refusal(400, "no") if len(down) == 6 else longer_wins(body)

    with ApiServer(answer) as server:
        flags["critic_settings"] = json.dumps({"hostname": server.url, "concurrency": 1})
        first = call("rank_best_of_n.py", **flags)
        assert first.code == 2 and "1 of the turns failed" in first.err
        before = (tmp_path / "judged.jsonl").read_text()
        assert len(before.splitlines()) == 2
        check_call("rank_best_of_n.py", **flags)
    assert set(before.splitlines()) < set((tmp_path / "judged.jsonl").read_text().splitlines())
    records = read_records(tmp_path / "judged.jsonl", TurnCandidates)
    assert [(r.id, r.judge_result[0]) for r in records] == [("t-0", 2), ("t-1", 2), ("t-2", 2)]  # in the file's order
    assert json.loads((tmp_path / "judged.jsonl.manifest.json").read_text())["status"] == "finished"
