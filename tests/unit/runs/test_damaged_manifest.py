"""A manifest of anything is continued, refused or ignored; it is never an error of the program."""

import copy
import json
from collections.abc import Iterator

import pytest

from sweet_rl.evaluation import budget
from sweet_rl.evaluation.graded_file import read_graded
from sweet_rl.method.sweet_critic import seed_of
from sweet_rl.runs.directory import directory_manifest
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.run import open_run
from sweet_rl.runs.shards import gather
from sweet_rl.runs.step import run_step
from tests.support.command_line import write_rows
from tests.support.dialogues import graded

SETTINGS = {"seed": 1, "shard": "1/2", "human": {"name": "x", "hash": "y"}}
ODD = ([[1], [2]], "text", -1, {"a": []})


def changed(whole: dict, path: tuple[str, ...] = ()) -> Iterator[str]:
    """The manifest with each entry, at every depth, replaced by something odd, and without it."""
    inside = whole
    for name in path:
        inside = inside[name]
    for key, value in inside.items() if path != ("versions",) else ():
        if isinstance(value, dict):
            yield from changed(whole, (*path, key))
        for odd in (*ODD, ...):
            copied = copy.deepcopy(whole)
            place = copied
            for name in path:
                place = place[name]
            place[key] = odd
            if odd is ...:
                del place[key]
            yield json.dumps(copied)


def test_a_manifest_of_nested_lists_or_of_anything_else_is_no_error_of_the_program(tmp_path, capsys):
    rows = [one.to_dict() for one in graded()]
    source = write_rows(tmp_path / "source.jsonl", rows)
    parts = [tmp_path / f"part{number}.jsonl" for number in (1, 2)]
    for number, part in enumerate(parts, 1):
        settings = SETTINGS | {"shard": f"{number}/2"}
        own = rows[number - 1 :: 2]
        run_step(open_run(part, settings, [source]), lambda run, own=own: run.write_missing(own) or {"dialogues": 3})
    manifest = tmp_path / "part1.jsonl.manifest.json"
    (tmp_path / "model").mkdir()

    def model() -> None:
        (tmp_path / "model" / "manifest.json").write_text(manifest.read_text())
        seed_of(str(tmp_path / "model"))
        directory_manifest(tmp_path / "model", SETTINGS, [source]).close()

    uses = [
        lambda: open_run(parts[0], SETTINGS, [source]).close(),
        model,
        lambda: gather(parts, tmp_path / "all.jsonl", overwrite=True),
        lambda: read_graded(str(parts[0])),
        lambda: budget.cost_of(parts[0]),
        lambda: budget.human_of(parts[0]),
    ]
    texts = ["[" * 100_000, '{"a":' * 100_000, "[[1], [2]]", "7", "\0", *changed(json.loads(manifest.read_text()))]
    refused = 0
    for text in texts:
        for use in uses:
            manifest.write_text(text)
            try:
                use()
            except UserError:
                refused += 1
    assert len(texts) > 70 and refused > len(texts)


@pytest.mark.parametrize("shard", [[[1], [2]], 7, "text", "1/x", "9" * 5000 + "/2"])
def test_a_shard_of_no_numbers_is_no_shard(shard, tmp_path):
    run_step(open_run(tmp_path / "part.jsonl", {"shard": shard}), lambda run: run.write({"id": "a"}) or {})
    with pytest.raises(UserError, match="was not made with --shard"):
        gather([tmp_path / "part.jsonl"], tmp_path / "all.jsonl")
