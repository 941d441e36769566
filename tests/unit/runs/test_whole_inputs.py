"""Unfinished and changed outputs of a step are no input of another one; and links to files stay links."""

import shutil
from pathlib import Path

import pytest

from sweet_rl.evaluation.compare import ComparisonSettings, compare_files
from sweet_rl.evaluation.graded_file import read_graded
from sweet_rl.runs.directory import directory_manifest
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import manifest_of, read_manifest
from sweet_rl.runs.run import open_run
from sweet_rl.runs.texts import replace_text
from sweet_rl.viewer.show import ViewSettings, show
from tests.support.command_line import call, read_rows
from tests.support.dialogues import graded


def made(path: Path, finished: bool = True, count: int | None = None) -> Path:
    """A graded file with its manifest."""
    with open_run(path, {"seed": 1}) as run:
        run.write_missing(one.to_dict() for one in graded()[:count])
        if finished:
            run.finish({})
    return path


def cut(path: Path) -> Path:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    return path


READERS = {
    "a step": lambda path: open_run(path.with_name("next.jsonl"), {}, [path]),
    "a training": lambda path: directory_manifest(path.with_name("model"), {}, [path]),
    "a comparison": lambda path: compare_files(ComparisonSettings(runs=f"a={path}")),
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("damage", ["unfinished", "cut", "edited", "through a link"])
def test_what_is_not_whole_is_no_input_until_its_manifest_is_removed(tmp_path, reader, damage):
    path = made(tmp_path / "in.jsonl", finished=damage != "unfinished")
    if damage == "cut":
        cut(path)
    elif damage != "unfinished":
        path.write_text(path.read_text().replace('"reward": 1.0', '"reward": 0.5', 1))
    given = path
    if damage == "through a link":
        (given := tmp_path / "link.jsonl").symlink_to(path)
    with pytest.raises(UserError, match="not finished|not as its run left it") as error:
        reader(given)
    assert str(manifest_of(path)) in str(error.value)
    assert not (tmp_path / "next.jsonl").exists() and not (tmp_path / "model").exists()
    manifest_of(path).unlink()
    reader(given)


def test_a_model_in_training_is_no_input_and_one_with_a_card_is(tmp_path):
    with directory_manifest(tmp_path / "model", {}) as run:
        with pytest.raises(UserError, match="not finished"):
            open_run(tmp_path / "out.jsonl", {}, [tmp_path / "model"])
        (tmp_path / "model" / "config.json").write_text("{}")
        run.finish({})
    (tmp_path / "model" / "README.md").write_text("added later")
    open_run(tmp_path / "out.jsonl", {}, [tmp_path / "model"]).close()


def test_a_file_that_was_moved_with_or_without_its_manifest_is_an_input(tmp_path):
    path = made(tmp_path / "in.jsonl")
    moved = Path(shutil.copy(path, tmp_path / "moved.jsonl"))
    read_graded(str(moved))
    shutil.copy(manifest_of(path), manifest_of(moved))
    read_graded(str(moved))
    with pytest.raises(UserError, match="not as its run left it"):
        read_graded(str(cut(moved)))


def test_the_viewer_shows_an_unfinished_file_and_says_so(tmp_path, capsys):
    path = made(tmp_path / "in.jsonl", finished=False)
    show(ViewSettings(str(path)))
    assert f"{path} is not finished" in capsys.readouterr().out and (tmp_path / "in.html").is_file()


def test_grading_in_place_goes_through_a_link_and_leaves_an_input(tmp_path):
    path = made(tmp_path / "disk" / "in.jsonl")
    (link := tmp_path / "link.jsonl").symlink_to(path)
    assert call("evaluate_code.py", input_path=link, in_place=True).code == 0
    assert link.is_symlink() and all("tests" in row["grade"] for row in read_rows(path) if row["ending"] != "failed")
    assert read_manifest(path)["settings"] == {"seed": 1} and len(list(path.parent.iterdir())) == 2
    open_run(tmp_path / "next.jsonl", {}, [path]).close()
    assert call("evaluate_code.py", input_path=path, in_place=True).code == 0


def test_sorting_an_output_and_writing_a_table_go_through_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    for name in ("out.jsonl", "table.md"):
        (tmp_path / name).symlink_to(tmp_path / "disk" / name)
    with open_run(tmp_path / "out.jsonl", {}) as run:
        run.write_missing([{"id": "b"}, {"id": "a"}])
        run.sort(["a", "b"])
        run.write({"id": "c"})
        run.finish({})
    replace_text(tmp_path / "table.md", "| table |")
    assert (tmp_path / "out.jsonl").is_symlink() and (tmp_path / "table.md").is_symlink()
    assert [row["id"] for row in read_rows(tmp_path / "disk" / "out.jsonl")] == ["a", "b", "c"]
    assert (tmp_path / "disk" / "table.md").read_text() == "| table |"


@pytest.mark.parametrize("flag", ["compare_path", "ranked_path", "pair_path", "results"])
def test_no_page_replaces_a_file_that_it_shows(tmp_path, flag):
    made(tmp_path / "in.jsonl")
    (other := tmp_path / "other.jsonl").write_text("")
    (tmp_path / "link.html").symlink_to(other)
    for output in (other, tmp_path / "link.html", f"{other}.manifest.json"):
        with pytest.raises(UserError, match="choose another output path"):
            ViewSettings(str(tmp_path / "in.jsonl"), str(output), overwrite=True, **{flag: str(other)})


def test_no_output_replaces_the_manifest_of_an_input(tmp_path):
    path = made(tmp_path / "in.jsonl")
    with pytest.raises(UserError, match="the manifest of the input"):
        open_run(manifest_of(path), {}, [path], overwrite=True)
