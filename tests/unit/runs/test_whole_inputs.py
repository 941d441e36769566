"""Unfinished outputs are no input of a comparison; the viewer shows them; grading in place goes through a link."""

from pathlib import Path

import pytest

from sweet_rl.evaluation.compare import ComparisonSettings, compare_files
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import read_manifest
from sweet_rl.runs.run import open_run
from sweet_rl.viewer.show import ViewSettings, show
from tests.support.command_line import call, read_rows
from tests.support.dialogues import graded


def made(path: Path, finished: bool = True) -> Path:
    """A graded file with its manifest."""
    with open_run(path, {"seed": 1}) as run:
        run.write_missing(one.to_dict() for one in graded())
        if finished:
            run.finish({})
    return path


def test_an_unfinished_file_is_not_compared(tmp_path):
    with pytest.raises(UserError, match="not finished"):
        compare_files(ComparisonSettings(runs=f"a={made(tmp_path / 'in.jsonl', finished=False)}"))


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


@pytest.mark.parametrize("flag", ["compare_path", "ranked_path", "pair_path", "results"])
def test_no_page_replaces_a_file_that_it_shows(tmp_path, flag):
    made(tmp_path / "in.jsonl")
    (other := tmp_path / "other.jsonl").write_text("")
    (tmp_path / "link.html").symlink_to(other)
    for output in (other, tmp_path / "link.html"):
        with pytest.raises(UserError, match="choose another output path"):
            ViewSettings(str(tmp_path / "in.jsonl"), str(output), overwrite=True, **{flag: str(other)})
