"""prepare_websight.py from local copies, and filter_websites.py."""

from __future__ import annotations

import pytest

from sweet_rl.dialogues.frontend.websight import with_fixed_pictures
from sweet_rl.runs.records import Task, read_records
from tests.support.browsers import renderer_or_skip
from tests.support.command_line import check_call, read_rows, write_rows

PAGE = "<html><body><img src='https://source.unsplash.com/random/{w}x100/?cat,dog'><p>{w}</p></body></html>"
ROWS = [{"llm_generated_idea": f"Idea {w % 5}", "text": PAGE.format(w=100 + w % 5)} for w in range(10)]


@pytest.mark.parametrize(
    ("found", "fixed"),
    [
        ("https://source.unsplash.com/random/800x240/?food", "https://picsum.photos/id/48/800/240"),
        ("https://source.unsplash.com/random/800x240?food", "https://picsum.photos/id/48/800/240"),
        ("http://source.unsplash.com/random/1x2", "https://picsum.photos/id/48/1/2"),
        ("//source.unsplash.com/random/5x6/?a", "https://picsum.photos/id/48/5/6"),
        ("https://source.unsplash.com/random?food", "https://source.unsplash.com/random?food"),
        ("https://example.com/800x240", "https://example.com/800x240"),
    ],
)
def test_random_pictures_become_fixed_ones_of_their_size(found, fixed):
    for around in ('<img src="{}">', "background: url({});", "<img src='{}' alt=''>"):
        assert with_fixed_pictures(around.format(found)) == around.format(fixed)


def test_a_run_that_stopped_goes_on_at_its_next_row(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pictured = [row | {"image": {"bytes": b"no picture", "path": None}} for row in ROWS]
    parquet.write_table(arrow.Table.from_pylist(pictured), tmp_path / "all.parquet")
    flags = {"input_path": tmp_path / "all.parquet", "output_dir": tmp_path / "out", "num_train": 10, "num_test": 0}
    check_call("prepare_websight.py", **flags)
    path, manifest = tmp_path / "out" / "train.jsonl", tmp_path / "out" / "train.jsonl.manifest.json"
    whole = path.read_text()
    manifest.write_text(manifest.read_text().replace('"finished"', '"running"'))
    lines = whole.splitlines(keepends=True)
    path.write_text("".join(lines[:4]) + lines[4][:20])
    check_call("prepare_websight.py", **flags)
    assert path.read_text() == whole and "already complete" in check_call("prepare_websight.py", **flags)


@pytest.mark.slow
def test_tasks_whose_page_cannot_be_drawn_are_dropped_with_their_reason(tmp_path):
    renderer_or_skip().close()
    broken = Task("huge", "<html>" + "x" * 4_000_001 + "</html>")
    tasks = [Task("a page", "<html><p>One</p></html>"), broken, Task("a page", "<html><p>Two</p></html>")]
    source = write_rows(tmp_path / "tasks.jsonl", [task.to_dict() for task in tasks])
    flags = {"input_path": source, "output_path": tmp_path / "kept.jsonl", "browser_workers": 1, "page_timeout": 120}
    check_call("filter_websites.py", **flags)
    assert [row["id"] for row in read_rows(tmp_path / "kept.jsonl")] == [tasks[0].id, tasks[2].id]
    (dropped,) = read_rows(tmp_path / "kept.dropped.jsonl")
    assert dropped["id"] == broken.id and dropped["render_failure"]["kind"] == "too_large"


def test_no_test_task_is_a_training_task(tmp_path):
    rows = [{"llm_generated_idea": f"Idea {n}", "text": f"<html><p>{n}</p></html>"} for n in range(10_003)]
    source = write_rows(tmp_path / "all.jsonl", rows)
    check_call("prepare_websight.py", input_path=source, output_dir=tmp_path / "out", num_train=3, num_test=3)
    made = {name: read_records(tmp_path / "out" / f"{name}.jsonl", Task) for name in ("train", "test")}
    numbers = {name: [task.extra["websight_row"] for task in tasks] for name, tasks in made.items()}
    assert numbers == {"train": [0, 1, 2], "test": [10_000, 10_001, 10_002]}
    assert made["test"][0].problem_description == "Idea 10000"
