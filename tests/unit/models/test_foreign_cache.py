"""A cache folder of somebody else runs no code, and gives a miss or a clear error."""

import asyncio
import json
import os
import pickle
import sqlite3
import stat
from dataclasses import asdict

import pytest

from sweet_rl.models.base import Completion
from sweet_rl.models.cache import DATABASE, CallCache
from sweet_rl.runs.errors import UserError

REPLY = Completion("yes", [1], [-0.5], "stop")


class Planted:
    """An object whose unpickling leaves a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


def ours(folder):
    """A folder with one entry, of the key "k"."""
    cache = CallCache(folder)
    asyncio.run(cache.put("k", [REPLY]))
    cache.close()


def got(folder):
    cache = CallCache(folder)
    try:
        return asyncio.run(cache.get("k"))
    finally:
        cache.close()


def change(folder, statement, *values):
    with sqlite3.connect(folder / DATABASE) as database:
        database.execute(statement, values)
    database.close()


def entry(**fields):
    return json.dumps([asdict(REPLY) | fields])


def test_entries_of_another_form_are_misses_and_nothing_of_them_runs(tmp_path):
    ours(tmp_path / "cache")
    assert got(tmp_path / "cache") == [REPLY]
    planted = pickle.dumps(Planted(tmp_path / "ran"))
    missing_field = {name: value for name, value in asdict(REPLY).items() if name != "token_ids"}
    entries = [
        planted, b"\xff\xfe\x00", None, 7, 1.5, "", "null", "[1]", '{"text": "yes"}', "[" * 100_000, "[null]",
        entry(text=None), entry(text=["yes"]), entry(token_ids="12"), entry(token_ids=[True]), entry(logprobs=[None]),
        entry(prompt_tokens=1.5),
        json.dumps([missing_field]), entry().replace("yes", "\\x"),
    ]  # fmt: skip
    for replies in entries:
        change(tmp_path / "cache", "UPDATE calls SET replies = ?", replies)
        assert got(tmp_path / "cache") is None, replies
    change(tmp_path / "cache", "UPDATE calls SET replies = CAST(? AS TEXT)", b"\xff" + entry().encode())
    assert got(tmp_path / "cache") is None
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE more (a)",
        "CREATE INDEX i ON calls (replies)",
        "CREATE TRIGGER t AFTER INSERT ON calls BEGIN DELETE FROM calls; END",
        "CREATE VIEW v AS SELECT 1",
        "ALTER TABLE calls ADD COLUMN more",
        "ALTER TABLE calls RENAME TO others",
    ],
)
def test_a_database_of_another_form_is_refused_and_left_as_it_is(tmp_path, statement):
    ours(tmp_path)
    change(tmp_path, statement)
    before = (tmp_path / DATABASE).read_bytes()
    with pytest.raises(UserError, match="cannot be used: .* the database of another program"):
        CallCache(tmp_path)
    assert (tmp_path / DATABASE).read_bytes() == before


def test_a_view_that_never_ends_in_place_of_the_table_is_refused(tmp_path):
    with sqlite3.connect(tmp_path / DATABASE) as database:
        database.execute(
            "CREATE VIEW calls AS WITH RECURSIVE n(key, replies) AS (SELECT 'k', 1 UNION ALL SELECT 'k', replies + 1 "
            "FROM n) SELECT * FROM n"
        )
    with pytest.raises(UserError, match="cannot be used"):
        CallCache(tmp_path)


def test_a_folder_with_other_files_is_no_cache_and_gets_none(tmp_path):
    (tmp_path / "cache.db").write_bytes(b"of diskcache")
    with pytest.raises(UserError, match="holds other files and no cache"):
        CallCache(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["cache.db"]


@pytest.mark.parametrize("kind", ["link", "dangling", "fifo", "folder"])
def test_a_database_that_is_no_plain_file_is_refused(tmp_path, kind):
    folder = tmp_path / "cache"
    folder.mkdir()
    (tmp_path / "precious").write_bytes(b"")
    {
        "link": lambda path: path.symlink_to(tmp_path / "precious"),
        "dangling": lambda path: path.symlink_to(tmp_path / "new"),
        "fifo": os.mkfifo,
        "folder": os.mkdir,
    }[kind](folder / DATABASE)
    with pytest.raises(UserError, match="cannot be used"):
        CallCache(folder)
    assert (tmp_path / "precious").read_bytes() == b"" and not (tmp_path / "new").exists()


def test_a_cut_database_is_an_error_or_a_miss(tmp_path):
    ours(tmp_path)
    content = (tmp_path / DATABASE).read_bytes()
    for length in (1, 50, 100, 2000, 4096, 5000, len(content) - 1):
        (tmp_path / DATABASE).write_bytes(content[:length])
        try:
            assert got(tmp_path) in (None, [REPLY])
        except UserError as error:
            assert "cannot be used" in str(error)


def test_a_new_folder_is_for_its_owner_alone(tmp_path):
    ours(tmp_path / "above" / "cache")
    assert stat.S_IMODE((tmp_path / "above" / "cache").stat().st_mode) == 0o700
