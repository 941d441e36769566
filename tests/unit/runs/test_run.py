import json
import os
from pathlib import Path

import pytest

from sweet_rl.runs.directory import directory_manifest
from sweet_rl.runs.errors import RecordError, UserError
from sweet_rl.runs.manifest import hash_input
from sweet_rl.runs.run import check_output, open_run
from sweet_rl.runs.texts import write_texts

SETTINGS = {"seed": 3, "k": 2, "model": "m"}


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text("1\n")
    return path


def test_a_stopped_run_goes_on_where_it_stopped(tmp_path, source):
    out = tmp_path / "deep" / "out.jsonl"
    with open_run(out, SETTINGS, [source, None]) as run:
        assert run.done == set() and not run.complete
        run.write({"id": "a", "text": "é\u2028"})
    with open_run(out, SETTINGS, [source]) as run:
        assert run.done == {"a"} and not run.complete and run.summary is None
        run.write({"id": "b"})
        assert [r["id"] for r in run.records()] == ["a", "b"]
        run.finish({"records": 2})
    with open_run(out, SETTINGS, [source]) as run:
        assert run.complete and run.summary == {"records": 2} and run.done == {"a", "b"}
        with pytest.raises(ValueError, match="finished"):
            run.write({"id": "c"})
    manifest = json.loads((tmp_path / "deep" / "out.jsonl.manifest.json").read_text())
    assert manifest["seed"] == 3 and manifest["status"] == "finished" and manifest["versions"]["sweet_rl"]
    assert list(manifest["inputs"].values()) == [hash_input(source)]


def test_other_settings_are_refused_naming_each_and_nothing_changes(tmp_path, source):
    out = tmp_path / "out.jsonl"
    with open_run(out, SETTINGS, [source]) as run:
        run.write({"id": "a"})
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    with pytest.raises(UserError) as error:
        open_run(out, {"seed": 4, "model": "m", "new": True}, [source])
    for line in ("  seed: 3 -> 4", "  k: 2 -> (not given)", "  new: (not given) -> true", "--overwrite"):
        assert line in str(error.value)
    assert "model" not in str(error.value)
    assert before == {p.name: p.read_bytes() for p in tmp_path.iterdir()}


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
    assert not (tmp_path / "new.jsonl").exists()


def test_an_output_of_unknown_origin_is_kept_unless_overwritten(tmp_path):
    out = tmp_path / "out.jsonl"
    out.write_text("mine\n")
    with pytest.raises(UserError, match="no manifest"):
        open_run(out, SETTINGS)
    assert out.read_text() == "mine\n"
    with open_run(out, SETTINGS, overwrite=True) as run:
        assert run.done == set() and not run.complete and list(run.records()) == []
        assert out.read_text() == "mine\n", "nothing has come that could replace it"
        run.write({"id": "a"})
        assert [row["id"] for row in run.records()] == ["a"]
    with open_run(out, SETTINGS) as run:
        assert run.done == {"a"} and not run.complete


def test_an_overwritten_output_stays_until_there_is_something_in_its_place(tmp_path):
    out = tmp_path / "out.jsonl"
    with open_run(out, SETTINGS) as run:
        run.write({"id": "a"})
        run.finish({})
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UserError, match="no model"), open_run(out, SETTINGS | {"k": 3}, overwrite=True):
        raise UserError("no model")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    with open_run(out, SETTINGS | {"k": 3}, overwrite=True) as run:
        run.finish({})
    assert out.read_text() == "" and open_run(out, SETTINGS | {"k": 3}).complete


def test_a_finished_output_that_was_removed_is_made_again(tmp_path):
    out = tmp_path / "out.jsonl"
    with open_run(out, SETTINGS) as run:
        run.write({"id": "a"})
        run.finish({})
    out.unlink()
    with open_run(out, SETTINGS) as run:
        assert not run.complete and run.done == set()


@pytest.fixture
def finished(tmp_path):
    """A finished output of two records."""
    out = tmp_path / "out.jsonl"
    with open_run(out, SETTINGS) as run:
        run.write({"id": "a"})
        run.write({"id": "b"})
        run.finish({})
    return out


def test_a_finished_output_that_lost_records_is_not_taken_for_complete(finished):
    finished.write_text('{"id": "a"}\n')
    with pytest.raises(UserError, match="1 records, .* 2"):
        open_run(finished, SETTINGS)
    assert finished.read_text() == '{"id": "a"}\n'


def test_a_finished_output_without_its_last_line_break_is_refused_and_stays_whole(finished):
    whole = finished.read_text()
    finished.write_text(whole.removesuffix("\n"))
    with pytest.raises(UserError, match="edited|changed"):
        open_run(finished, SETTINGS)
    assert finished.read_text() == whole.removesuffix("\n")
    finished.write_text(whole)
    with open_run(finished, SETTINGS) as run:
        assert run.complete


def test_an_output_can_be_checked_before_long_work(tmp_path):
    (tmp_path / "foreign.jsonl").write_text("mine\n")
    with pytest.raises(UserError, match="no manifest"):
        check_output(tmp_path / "foreign.jsonl")
    with pytest.raises(UserError, match="directory"):
        check_output(tmp_path)
    with pytest.raises(UserError, match="no folder"):
        check_output(tmp_path / "foreign.jsonl" / "deep" / "out.jsonl")
    check_output(tmp_path / "foreign.jsonl", overwrite=True)
    check_output(tmp_path / "new" / "out.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["foreign.jsonl"]


def test_an_output_is_never_one_of_its_inputs(tmp_path, source):
    model = tmp_path / "model"
    with directory_manifest(model, SETTINGS) as run:
        (model / "pairs.jsonl").write_text("2\n")
        run.finish({})
    (tmp_path / "link.jsonl").symlink_to(source)
    for overwrite in (False, True):
        for path in (source, tmp_path / "link.jsonl"):
            with pytest.raises(UserError, match="jsonl"):
                open_run(path, SETTINGS, [source], overwrite)
        with pytest.raises(UserError, match="model is also the input"):
            directory_manifest(model, SETTINGS, [source, model], overwrite)
        with pytest.raises(UserError, match="where the input .*pairs.jsonl lies"):
            directory_manifest(model, SETTINGS, [model / "pairs.jsonl"], overwrite)
    with pytest.raises(UserError, match="also the input"):
        open_run(source, SETTINGS, [source], overwrite=True)
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


def test_overwriting_a_broken_manifest_works_as_its_message_says(tmp_path):
    out = tmp_path / "out.jsonl"
    (tmp_path / "out.jsonl.manifest.json").write_text("{")
    with pytest.raises(UserError, match="--overwrite"):
        open_run(out, SETTINGS)
    with open_run(out, SETTINGS, overwrite=True) as run:
        assert not run.complete


def test_an_edited_output_is_not_continued(tmp_path):
    out = tmp_path / "out.jsonl"
    with open_run(out, SETTINGS) as run:
        run.write({"id": "a"})
    out.write_text('{"id": "a"}\n{"id": "a"}\n')
    with pytest.raises(RecordError, match="line 2: .*'a'"):
        open_run(out, SETTINGS)
    out.write_text("junk\n")
    with pytest.raises(RecordError, match="line 1: "):
        open_run(out, SETTINGS)


def test_a_record_is_refused_without_a_new_id_or_with_nan(tmp_path):
    with open_run(tmp_path / "out.jsonl", SETTINGS) as run:
        run.write({"id": "a"})
        for bad in ({"id": "a"}, {"id": 3}, {}, {"id": "b", "x": float("nan")}):
            with pytest.raises(ValueError):
                run.write(bad)
        assert list(run.records()) == [{"id": "a"}]


def test_two_writers_are_refused(tmp_path):
    with open_run(tmp_path / "out.jsonl", SETTINGS):
        with pytest.raises(UserError, match="another process"):
            open_run(tmp_path / "out.jsonl", SETTINGS, overwrite=True)
    open_run(tmp_path / "out.jsonl", SETTINGS).close()


def test_a_model_directory_is_continued_completed_and_guarded(tmp_path):
    path = tmp_path / "model"
    with directory_manifest(path, SETTINGS) as run:
        assert not run.resuming and not run.complete
        (path / "checkpoint-1").mkdir()
    with directory_manifest(path, SETTINGS) as run:
        assert run.resuming and (path / "checkpoint-1").exists()
        with pytest.raises(UserError, match="another process"):
            directory_manifest(path, SETTINGS)
        run.finish({"loss": 0.5})
    with directory_manifest(path, SETTINGS) as run:
        assert run.complete and not run.resuming and run.summary == {"loss": 0.5}
    with pytest.raises(UserError, match="  k: 2 -> 5"):
        directory_manifest(path, SETTINGS | {"k": 5})
    (path / "weights").write_text("old")
    with directory_manifest(path, SETTINGS | {"k": 5}, overwrite=True) as run:
        assert not run.resuming and not run.complete
        assert [entry.name for entry in path.iterdir()] == ["manifest.json"]


def test_a_directory_killed_while_its_manifest_was_written_can_be_used(tmp_path):
    path = tmp_path / "critic"
    path.mkdir()
    (path / "manifest.json.partial").write_text('{"stat')
    with directory_manifest(path, SETTINGS) as run:
        assert not run.complete


def test_a_directory_of_unknown_origin_is_never_emptied(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(UserError, match="no manifest.json"):
            directory_manifest(tmp_path, SETTINGS, overwrite=overwrite)
    assert (tmp_path / "thesis.txt").exists()


def test_records_to_be_made_again_are_taken_out_and_a_finished_run_goes_on(tmp_path):
    path = tmp_path / "out.jsonl"
    with open_run(path, {"a": 1}) as run:
        for number in range(4):
            run.write({"id": str(number), "bad": number % 2})
        run.finish({"n": 4})
    with open_run(path, {"a": 1}, drop=lambda row: row["bad"] == 7) as run:
        assert run.complete and run.summary == {"n": 4}  # nothing to drop: left as it was
    with open_run(path, {"a": 1}, drop=lambda row: row["bad"] == 1) as run:
        assert not run.complete and run.done == {"0", "2"} and run.summary is None
        with pytest.raises(UserError, match="another process"):
            open_run(path, {"a": 1})
        run.write({"id": "1", "bad": 0})
    with open_run(path, {"a": 1}) as run:  # stopped in between: the same run, what was taken out is missing
        assert not run.complete and run.done == {"0", "1", "2"}
    assert not path.with_name("out.jsonl.partial").exists()


def test_a_line_that_could_not_be_written_is_taken_back(tmp_path, monkeypatch):
    path, write = tmp_path / "out.jsonl", os.write

    def full(file, data):
        if len(data) > 8:
            return write(file, data[:8])
        raise OSError(28, "No space left on device")

    with open_run(path, {"a": 1}) as run:
        run.write({"id": "1"})
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(UserError, match="No space left"):
            run.write({"id": "2", "text": "long enough"})
        monkeypatch.undo()
        run.write({"id": "2"})
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["1", "2"]


def test_sorted_records_do_not_tell_which_was_made_first(tmp_path):
    path = tmp_path / "out.jsonl"
    with open_run(path, {}) as run:
        for name in "cadb":
            run.write({"id": name, "text": f"ünï {name}"})
        run.sort("abcz")
        with pytest.raises(UserError, match="another process"):
            open_run(path, {})
        assert [row["id"] for row in run.records()] == ["a", "b", "c", "d"]  # what is not listed comes last
        run.write({"id": "e"})
        run.finish({})
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["a", "b", "c", "d", "e"]


def test_paths_that_are_not_utf_8_are_outputs_and_inputs_but_no_folders_of_models(tmp_path):
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    odd.mkdir()
    for count in (1, 2):  # begun, then continued
        with open_run(odd / "in.jsonl", {"folder": str(odd)}) as run:
            run.write({"id": str(count)})
    with open_run(odd / "in.jsonl", {"folder": str(odd)}) as run:
        run.finish()
    with open_run(tmp_path / "out.jsonl", {}, [odd / "in.jsonl"]) as run:
        run.write({"id": "1"})
        run.finish({"input": str(odd)})
    with open_run(tmp_path / "out.jsonl", {}, [odd / "in.jsonl"]) as run:
        assert run.complete and run.summary == {"input": str(odd)} and str(odd / "in.jsonl") in run.manifest.inputs
    write_texts({odd / "a.md": str(odd)})
    write_texts({odd / "a.md": str(odd)})  # the same content is no other one
    with pytest.raises(UserError, match="caf.*is no path in UTF-8"):
        directory_manifest(odd / "model", {})
    assert not (odd / "model").exists()


def test_a_link_in_the_place_of_a_partial_copy_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "a.md.partial").symlink_to(victim)
    write_texts({tmp_path / "a.md": "table"})
    assert victim.read_text() == "precious"
    assert (tmp_path / "a.md").read_text() == "table" and not (tmp_path / "a.md").is_symlink()
