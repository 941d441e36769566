"""A log of anything is refused with its line."""

import json

import pytest

from sweet_rl.integrations.logs import read_dialogues
from sweet_rl.runs.errors import UserError
from tests.support.dialogues import graded

AGENT = {"agent": {"name": "agent"}, "ok": True}
ODD = [
    {"traces": None}, {"traces": 7}, {"traces": [7]}, {"traces": [{}]}, {"traces": [["agent"]]},
    {"traces": [{"agent": None}]}, {"traces": [{"agent": {"name": "agent"}}]}, {"traces": [AGENT]},
    {"traces": [AGENT | {"info": []}]}, {"traces": [AGENT | {"info": {}}]},
    {"traces": [AGENT | {"info": {"dialogue": [[1], [2]]}}]}, {"traces": [AGENT | {"info": {"dialogue": {"task": 1}}}]},
]  # fmt: skip


@pytest.mark.parametrize("row", [{"ok": True} | row for row in ODD], ids=json.dumps)
def test_a_line_of_another_form_is_named(row, tmp_path):
    good = {"ok": True, "traces": [AGENT | {"info": {"dialogue": graded()[0].to_dict()}}]}
    path = tmp_path / "traces.jsonl"
    path.write_text(json.dumps(good) + "\n" + json.dumps(row) + "\n")
    with pytest.raises(UserError, match=f"{path}, line 2"):
        read_dialogues(path)


@pytest.mark.parametrize("content", [b"PK\x03\x04 garbage", b"", b"[" * 100_000, b'{"eval": [[1]]}', b"null"])
@pytest.mark.parametrize("name", ["log.eval", "log.json"])
def test_a_damaged_log_of_inspect_ai_is_named(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=name):
        read_dialogues(tmp_path / name)
