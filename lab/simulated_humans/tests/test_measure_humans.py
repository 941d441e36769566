"""measure_humans.py on dialogues of the scripted human, of a leaky one, and of a model on a server; with a judge."""

import json
import re

from sweet_rl.dialogues.mini.tasks import make_tasks
from tests.support.api_server import MODEL, ApiServer, chat_reply, refusal
from tests.support.command_line import ROOT, call, read_rows, write_rows
from tests.support.tables import unpadded

LEAKY = ROOT / "lab" / "simulated_humans" / "leaky_human.py"


def answer(body: dict):
    """The human says that it does not know; the judge finds only that wrong."""
    text = body["messages"][0]["content"]
    reply = re.search(r"<answer>\n(.*)\n</answer>", text, re.DOTALL)
    if reply is None:
        return chat_reply("<think>The code says it.</think>I don't know, that is all I can say.")
    return chat_reply("Verdict: " + ("wrong" if "all I can say" in reply[1] else "true"))


def test_humans_are_named_in_rows_and_measured_by_their_replies(tmp_path):
    tasks = write_rows(tmp_path / "tasks.jsonl", make_tasks(2, seed=5))
    short = {"agent_model": "mini", "input_path": tasks, "max_turns": 4, "max_tokens": 30}
    files = {name: tmp_path / f"{name}.jsonl" for name in ("scripted", "leaky", "llm")}
    calls = 0

    def flaky(body):
        nonlocal calls
        calls += "<answer>" in body["messages"][0]["content"]
        return refusal(400, "no") if calls == 1 and "<answer>" in body["messages"][0]["content"] else answer(body)

    with ApiServer(flaky) as server:
        # 1. Every row carries its human; a given name and the hash of all that its replies depend on.
        for name, flags in {
            "scripted": {"env_model": "mini"},
            "leaky": {"env_model": "leaky", "task_type": LEAKY},
            "llm": {"env_model": MODEL, "hostname": server.url, "human_name": "helpless", "task_type": "mini"},
        }.items():
            done = call("simulate_interactions.py", **short, **flags, output_path=files[name])
            assert done.code == 0, done.err
        humans = {name: [row["human"] for row in read_rows(path)] for name, path in files.items()}
        assert [humans[name][0]["name"] for name in files] == ["mini", "leaky", "helpless"]
        assert all(len(found) == 2 and found[0] == found[1] for found in humans.values())
        manifest = json.loads((tmp_path / "llm.jsonl.manifest.json").read_text())
        assert manifest["summary"]["humans"].keys() == {f"helpless ({humans['llm'][0]['hash'][:8]})"}

        # 2. The sandbox checks what can be read as a rule, the judge the rest; a judge that fails is asked again.
        measured = {"input_path": ",".join(map(str, files.values())), "output_path": tmp_path / "replies.jsonl",
                    "task_type": "mini", "markdown_path": tmp_path / "humans.md", "judge_model": MODEL,
                    "judge_hostname": server.url, "workers": 1}  # fmt: skip
        first = call("lab.simulated_humans.measure_humans", **measured)
        assert first.code == 2 and "1 refused" in first.err, first.err
        done = call("lab.simulated_humans.measure_humans", **measured)
        assert done.code == 0, done.err
    rows = read_rows(tmp_path / "replies.jsonl")
    by_human = {name: [row for row in rows if row["human"].startswith(name)] for name in ("mini", "leaky", "helpless")}
    assert {row["checked_by"] for row in by_human["mini"]} == {"sandbox", "judge"}
    assert not any(row["contradicts"] or row["leak"] for row in by_human["mini"])
    assert any(row["leak"] for row in by_human["leaky"])
    assert all(row["contradicts"] and row["checked_by"] == "judge" for row in by_human["helpless"])
    assert all(row["unknown"] and row["ends_help"] for row in by_human["helpless"])
    table = unpadded((tmp_path / "humans.md").read_text())
    assert table.count("\n") == 5 and "| helpless (" in table and "| 100.0 |" in table

    # 3. A table of one run names its human, and the win rate against another human is refused.
    graded = {name: tmp_path / f"{name}.graded.jsonl" for name in ("scripted", "llm")}
    for name in graded:
        done = call("evaluate_code.py", input_path=files[name], output_path=graded[name], sandbox="none")
        assert done.code == 0 and f"{humans[name][0]['name']} (" in done.out, done.err
    again = {"input_path": files["llm"], "output_path": tmp_path / "again.jsonl", "sandbox": "none"}
    refused = call("evaluate_code.py", **again, baseline=graded["scripted"])
    assert refused.code == 2 and "humans" in refused.err
    mixed = call("evaluate_code.py", **again, baseline=graded["scripted"], mix_humans=True)
    assert mixed.code == 0 and "win rate" in mixed.out, mixed.err
