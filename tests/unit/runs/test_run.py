"""A run on disk: continued, refused, replaced, sorted; files and model directories."""

from __future__ import annotations

import json
import os

import pytest

from sweet_rl.runs.errors import NothingMade, UserError
from sweet_rl.runs.manifest import hash_input, manifest_of, read_manifest
from sweet_rl.runs.paths import write_texts
from sweet_rl.runs.run import check_output, open_model, open_run

SETTINGS = {"seed": 3, "k": 2, "model": "m"}


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text("1\n")
    return path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_stopped_run_goes_on_where_it_stopped(tmp_path, source):
    out = tmp_path / "deep" / "out.jsonl"
    with open_run(out, SETTINGS, [source, None]) as run:
        assert run.done == set() and not run.finished
        run.write({"id": "a", "text": "é\u2028"})
    with open_run(out, SETTINGS, [source]) as run:
        assert run.done == {"a"} and not run.finished and run.summary == {}
        run.write({"id": "b"})
        assert [r["id"] for r in run.records()] == ["a", "b"]
        assert run.finish({"records": 2}) == {"records": 2}
    with open_run(out, SETTINGS, [source]) as run:
        assert run.finished and run.summary == {"records": 2} and run.done == {"a", "b"}
        with pytest.raises(ValueError):
            run.write({"id": "c"})
    manifest = json.loads((tmp_path / "deep" / "out.jsonl.manifest.json").read_text())
    assert manifest["seed"] == 3 and manifest["status"] == "finished" and manifest["versions"]["sweet_rl"]
    assert list(manifest["inputs"].values()) == [hash_input(source)]


def test_an_output_without_records_is_not_finished_unless_it_may_be_empty(tmp_path, capsys):
    out = tmp_path / "out.jsonl"
    for _ in range(2):
        with pytest.raises(NothingMade, match="out.jsonl: not a single record"), open_run(out, SETTINGS) as run:
            run.finish({"read": 7})
    assert "read: 7" in capsys.readouterr().out and read_manifest(out) is None
    with open_run(out, SETTINGS) as run:
        run.finish({}, may_be_empty=True)
    with open_run(out, SETTINGS) as run:
        assert run.finished


def test_other_settings_are_refused_naming_each_and_nothing_changes(tmp_path, source):
    out = tmp_path / "out.jsonl"
    with open_run(out, SETTINGS, [source]) as run:
        run.write({"id": "a"})
    before = contents(tmp_path)
    with pytest.raises(UserError) as error:
        open_run(out, {"seed": 4, "model": "m", "new": True}, [source])
    for line in ("  seed: 3 -> 4", "  k: 2 -> (not given)", "  new: (not given) -> true", "--overwrite"):
        assert line in str(error.value)
    assert "model" not in str(error.value)
    assert before == contents(tmp_path)


def test_another_input_is_refused_and_a_moved_one_is_not(tmp_path, source):
    out = tmp_path / "out.jsonl"
    with open_run(out, SETTINGS, [source]) as run:
        run.write({"id": "a"})
    moved = source.rename(tmp_path / "moved.jsonl")
    with open_run(out, SETTINGS, [moved]) as run:
        assert run.done == {"a"}
    moved.write_text("2\n")
    with pytest.raises(UserError, match="input .*in.jsonl: "):
        open_run(out, SETTINGS, [moved])
    with pytest.raises(UserError, match="no.jsonl"):
        open_run(tmp_path / "new.jsonl", SETTINGS, [tmp_path / "no.jsonl"])


def test_a_run_that_stopped_before_its_first_record_takes_other_settings(tmp_path):
    for settings in (SETTINGS, SETTINGS | {"k": 3}):
        with pytest.raises(UserError, match="bad input"), open_run(tmp_path / "out.jsonl", settings):
            raise UserError("bad input")
        with pytest.raises(UserError, match="bad input"), open_model(tmp_path / "model", settings):
            raise UserError("bad input")
    assert read_manifest(tmp_path / "out.jsonl") is None, "nothing was written that had to be explained"


def test_an_unfinished_run_of_an_earlier_version_is_refused_and_a_finished_one_is_read(tmp_path):
    out, model = tmp_path / "out.jsonl", tmp_path / "model"
    with open_run(out, SETTINGS) as run, open_model(model, SETTINGS):
        run.write({"id": "a"})
        (model / "checkpoint").mkdir()
    for path in (out, model):
        manifest = read_manifest(path)
        del manifest["format"]
        manifest_of(path).write_text(json.dumps(manifest))
    for opened, path in ((open_run, out), (open_model, model)):
        with pytest.raises(UserError, match="earlier version.*--overwrite"):
            opened(path, SETTINGS)
        manifest_of(path).write_text(json.dumps(read_manifest(path) | {"status": "finished", "summary": {"n": 1}}))
        with opened(path, SETTINGS) as output:
            assert output.finished and output.summary == {"n": 1}


def test_an_output_of_unknown_origin_is_kept_unless_overwritten(tmp_path):
    out = tmp_path / "out.jsonl"
    out.write_text("mine\n")
    for check in (check_output, lambda path: open_run(path, SETTINGS)):
        with pytest.raises(UserError, match="no manifest"):
            check(out)
    assert out.read_text() == "mine\n"
    with open_run(out, SETTINGS, overwrite=True) as run:
        assert run.done == set() and not run.finished and list(run.records()) == []
        assert out.read_text() == "mine\n", "nothing has come that could replace it"
        run.write({"id": "a"})
        assert [row["id"] for row in run.records()] == ["a"]
    with open_run(out, SETTINGS) as run:
        assert run.done == {"a"} and not run.finished
    with pytest.raises(UserError, match="directory"):
        check_output(tmp_path)


def test_an_overwritten_output_stays_until_there_is_something_in_its_place(tmp_path):
    out = tmp_path / "out.jsonl"
    with open_run(out, SETTINGS) as run:
        run.write({"id": "a"})
        run.finish({})
    before = contents(tmp_path)
    with pytest.raises(UserError, match="no model"), open_run(out, SETTINGS | {"k": 3}, overwrite=True):
        raise UserError("no model")
    assert contents(tmp_path) == before
    with open_run(out, SETTINGS | {"k": 3}, overwrite=True) as run:
        run.finish({}, may_be_empty=True)
    assert out.read_text() == "" and open_run(out, SETTINGS | {"k": 3}).finished


def test_a_finished_output_may_be_filtered_by_hand(tmp_path):
    out = tmp_path / "out.jsonl"
    with open_run(out, SETTINGS) as run:
        run.write_missing({"id": name} for name in "ab")
        run.finish({})
    out.write_text('{"id": "b"}')
    with open_run(tmp_path / "next.jsonl", {}, [out]) as run, open_run(out, SETTINGS) as source:
        assert source.finished and source.done == {"b"} and not run.finished
    assert out.read_text() == '{"id": "b"}'


def test_an_unfinished_output_is_no_input_through_a_link_neither(tmp_path):
    out, model, link = tmp_path / "out.jsonl", tmp_path / "model", tmp_path / "link.jsonl"
    link.symlink_to(out)
    with open_run(out, SETTINGS) as run, open_model(model, SETTINGS) as trained:
        run.write({"id": "a"})
        for name in (out, link, model):
            with pytest.raises(UserError, match=f"not finished.*remove {manifest_of(out if name == link else name)}"):
                open_run(tmp_path / "next.jsonl", {}, [name])
        run.finish({})
        trained.finish({})
    open_run(tmp_path / "next.jsonl", {}, [out, link, model]).close()


def test_an_output_is_never_one_of_its_inputs(tmp_path, source):
    model = tmp_path / "model"
    with open_model(model, SETTINGS) as run:
        (model / "pairs.jsonl").write_text("2\n")
        run.finish({})
    (tmp_path / "link.jsonl").symlink_to(source)
    for overwrite in (False, True):
        for path in (source, tmp_path / "link.jsonl"):
            with pytest.raises(UserError, match="also the input"):
                open_run(path, SETTINGS, [source], overwrite)
        for read in (model, model / "pairs.jsonl"):
            with pytest.raises(UserError, match="model is also the input"):
                open_model(model, SETTINGS, [read], overwrite)
    assert source.read_text() == "1\n" and (model / "pairs.jsonl").exists()


def test_tables_are_written_all_or_none(tmp_path):
    new, old = tmp_path / "deep" / "new.md", tmp_path / "old.json"
    old.write_text("mine")
    with pytest.raises(UserError, match="old.json"):
        write_texts({new: "table", old: "{}"})
    assert old.read_text() == "mine" and not new.exists()
    write_texts({new: "table", old: "mine"})
    write_texts({new: "table", old: "{}"}, overwrite=True)
    assert (new.read_text(), old.read_text()) == ("table", "{}")
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == ["new.md", "old.json"]


@pytest.mark.parametrize("text", ["{", "[}"])
def test_a_broken_manifest_is_an_error_that_overwrite_mends(tmp_path, text):
    out = tmp_path / "out.jsonl"
    out.write_text('{"id": "a"}\n')
    (tmp_path / "out.jsonl.manifest.json").write_text(text)
    with pytest.raises(UserError, match="is not a manifest"):
        open_run(out, SETTINGS)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "manifest.json").write_text('{"name": "onnx"}')
    assert read_manifest(tmp_path / "folder") is None, "another program's"
    with open_run(out, SETTINGS, overwrite=True) as run:
        assert not run.finished


def test_two_writers_are_refused(tmp_path):
    with open_run(tmp_path / "out.jsonl", SETTINGS):
        with pytest.raises(UserError, match="another process"):
            open_run(tmp_path / "out.jsonl", SETTINGS, overwrite=True)
    open_run(tmp_path / "out.jsonl", SETTINGS).close()


def test_a_model_directory_is_continued_completed_and_guarded(tmp_path):
    path = tmp_path / "model"
    with open_model(path, SETTINGS) as run:
        assert not run.resuming and not run.finished
        (path / "checkpoint-1").mkdir()
    with open_model(path, SETTINGS) as run:
        assert run.resuming and (path / "checkpoint-1").exists()
        with pytest.raises(UserError, match="another process"):
            open_model(path, SETTINGS)
        run.finish({"loss": 0.5})
    with open_model(path, SETTINGS) as run:
        assert run.finished and not run.resuming and run.summary == {"loss": 0.5}
    with pytest.raises(UserError, match="  k: 2 -> 5"):
        open_model(path, SETTINGS | {"k": 5})
    (path / "weights").write_text("old")
    with open_model(path, SETTINGS | {"k": 5}, overwrite=True) as run:
        assert not run.resuming and not run.finished
        assert [entry.name for entry in path.iterdir()] == ["manifest.json"]


def test_a_directory_of_unknown_origin_is_never_emptied(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(UserError, match="no manifest.json"):
            open_model(tmp_path, SETTINGS, overwrite=overwrite)
    assert (tmp_path / "thesis.txt").exists()


def test_records_to_be_made_again_are_taken_out_and_a_finished_run_goes_on(tmp_path):
    path = tmp_path / "out.jsonl"
    with open_run(path, {"a": 1}) as run:
        for number in range(4):
            run.write({"id": str(number), "bad": number % 2})
        run.finish({"n": 4})
    with open_run(path, {"a": 1}, drop=lambda row: row["bad"] == 7) as run:
        assert run.finished and run.summary == {"n": 4}  # nothing to drop: left as it was
    with open_run(path, {"a": 1}, drop=lambda row: row["bad"] == 1) as run:
        assert not run.finished and run.done == {"0", "2"} and run.summary == {}
        with pytest.raises(UserError, match="another process"):
            open_run(path, {"a": 1})
        run.write({"id": "1", "bad": 0})
    with open_run(path, {"a": 1}) as run:  # stopped in between: the same run, what was taken out is missing
        assert not run.finished and run.done == {"0", "1", "2"}
    assert not path.with_name("out.jsonl.partial").exists()


def test_sorted_records_do_not_tell_which_was_made_first_and_a_link_stays_one(tmp_path):
    (tmp_path / "disk").mkdir()
    path = tmp_path / "out.jsonl"
    path.symlink_to(tmp_path / "disk" / "out.jsonl")
    with open_run(path, {}) as run:
        for name in "cadb":
            run.write({"id": name, "text": f"ünï {name}"})
        run.sort("abcz")
        with pytest.raises(UserError, match="another process"):
            open_run(path, {})
        assert [row["id"] for row in run.records()] == ["a", "b", "c", "d"]  # what is not listed comes last
        run.write({"id": "e"})
        run.finish({})
    assert path.is_symlink()
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["a", "b", "c", "d", "e"]


def test_a_half_line_is_cut_when_the_run_goes_on(tmp_path):
    path = tmp_path / "out.jsonl"
    with open_run(path, {}) as run:
        run.write({"id": "a"})
    with open(path, "ab") as file:
        file.write(b'{"id": "b", "te')
    with open_run(path, {}) as run:
        assert run.done == {"a"}
        run.write({"id": "b"})
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["a", "b"]
    assert os.path.getsize(path) == len('{"id": "a"}\n') * 2


@pytest.mark.parametrize("record", [{"id": "a"}, {"id": ""}, {"id": 1}, {}])
def test_a_record_without_an_id_of_its_own_is_not_added(tmp_path, record):
    with open_run(tmp_path / "out.jsonl", {}) as run:
        run.write({"id": "a"})
        with pytest.raises(ValueError, match="out.jsonl"):
            run.write(record)
