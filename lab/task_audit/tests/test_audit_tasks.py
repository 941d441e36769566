"""audit_tasks.py, and the scripts that take its list as --exclude."""

import json

from sweet_rl.dialogues.mini.tasks import make_tasks
from sweet_rl.runs.records import Task
from tests.support.command_line import call, read_rows, write_rows


def test_what_the_audit_lists_is_left_out_of_dialogues_and_of_grading(tmp_path):
    tasks = make_tasks(3, seed=3)
    function = tasks[1]["test_cases"]["test1"].partition("(")[0]
    bad = tasks[1] | {"test_cases": {"test1": f"{function}(1, 2, 3, 4, 5, 6, 7)"}}
    first = write_rows(tmp_path / "test.jsonl", [tasks[0], bad])
    second = write_rows(tmp_path / "train.jsonl", [tasks[2], tasks[0]])
    listed, page = tmp_path / "exclude.jsonl", tmp_path / "audit.md"
    flags = {"input_path": f"{first},{second}", "output_path": tmp_path / "audit.jsonl", "exclude_path": listed,
             "page_path": page, "workers": 2}  # fmt: skip

    # 1. One line per task of each file, the list, and the page.
    done = call("lab.task_audit.audit_tasks", **flags)
    assert done.code == 0, done.err
    ids = [Task.from_dict(task).id for task in (tasks[0], bad, tasks[2], tasks[0])]
    rows = read_rows(tmp_path / "audit.jsonl")
    assert [row["task_id"] for row in rows] == ids
    assert [list(row["reasons"]) for row in rows] == [[], ["the reference fails"], [], ["the same task"]]
    assert [(row["id"], row["file"]) for row in read_rows(listed)] == [(ids[1], "test.jsonl"), (ids[0], "train.jsonl")]
    assert "| test.jsonl | 2 | 1 | 1 |" in page.read_text()

    # 2. Stopped in the middle, the same command goes on and gives the same.
    made = {path: path.read_bytes() for path in (tmp_path / "audit.jsonl", listed, page)}
    lines = made[tmp_path / "audit.jsonl"].splitlines(keepends=True)
    (tmp_path / "audit.jsonl").write_bytes(lines[0] + lines[1][:20])
    manifest = tmp_path / "audit.jsonl.manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"status": "running"}))
    assert call("lab.task_audit.audit_tasks", **flags).code == 0
    assert {path: path.read_bytes() for path in made} == made

    # 3. The list leaves tasks out of dialogues, and another list is another run.
    played = {"agent_model": "mini", "env_model": "mini", "input_path": second, "output_path": tmp_path / "t.jsonl",
              "max_turns": 1, "max_tokens": 4, "exclude": listed}  # fmt: skip
    done = call("simulate_interactions.py", **played)
    assert done.code == 0 and "1 of 2 tasks" in done.out, done.err
    assert [row["task"]["id"] for row in read_rows(tmp_path / "t.jsonl")] == [ids[2]]
    refused = call("simulate_interactions.py", **played | {"exclude": None})
    assert refused.code == 2 and str(listed) in refused.err

    # 4. And out of grading.
    graded = {"input_path": second, "output_path": tmp_path / "g.jsonl", "grade_references": True, "exclude": listed}
    assert call("evaluate_code.py", **graded).code == 0
    assert [row["task"]["id"] for row in read_rows(tmp_path / "g.jsonl")] == [ids[2]]
