"""Figures from results: what is drawn where, and the same files for the same figures."""

import json

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from sweet_rl.evaluation.figures import curves, save_figure, table
from tests.support.command_line import call


def estimate(mean, width=0.1):
    return {"mean": mean, "low": mean - width, "high": mean + width, "tasks": 10}


def results(*names):
    runs = [
        {"name": name, "humans": [], "success": estimate(0.2 + i / 10), "tests_passed": estimate(0.3 + i / 10)}
        for i, name in enumerate(names)
    ]
    return {"measure": "success", "runs": runs, "files": {}, "paper": {"SWEET-RL": {"tests": 56.8, "success": 40.4}}}


def test_a_table_has_a_labelled_point_for_each_run_its_seeds_behind_it_and_the_papers_mark_beside_it():
    found = results("zero-shot", "SWEET-RL")
    found["runs"][1]["success_by_seed"] = [0.25, 0.35]
    _, success = table(found).axes
    points = [box.lines[0].get_xydata().round(6).tolist() for box in success.containers]
    assert points == [[[20.0, 1.0]], [[30.0, 0.0]]]
    assert [text.get_text() for text in success.texts] == ["20.0", "30.0"]
    seeds, *_ = [line for line in success.lines if line.get_markerfacecolor() == "none"]
    assert seeds.get_xydata().tolist() == [[25.0, 0], [35.0, 0]]
    (mark,) = [line for line in success.lines if line.get_label().startswith("paper: ")]
    assert mark.get_xydata().tolist() == [[40.4, 0]]
    assert mark.get_label().splitlines()[1].startswith("here: protocol not recorded, human none, not recorded")


def test_curves_draw_each_mean_with_its_seeds():
    found = results("a@1", "a@2")
    found["runs"][0]["success_by_seed"] = [0.1, 0.3]
    axis = curves(found).axes[0]
    (box,) = axis.containers
    assert box.lines[0].get_xydata().round(6).tolist() == [[1, 20], [2, 30]]
    seeds = [line for line in axis.lines if line.get_markerfacecolor() == "none"]
    assert [line.get_xydata().tolist() for line in seeds] == [[[1, 10], [1, 30]]]


def test_curves_show_the_papers_level_or_its_points_in_a_panel_of_their_own():
    found = results("critic@1", "critic@2", "critic@4")
    level = curves(found, paper=[{"series": "SWEET critic", "success": 44.3, "note": "highest"}])
    assert len(level.axes) == 1 and any("44.3" in text.get_text() for text in level.axes[0].texts)
    assert "\npaper: protocol released" in level.axes[0].get_xlabel() and "\nhere: " in level.axes[0].get_xlabel()
    assert level.axes[0].get_xscale() == "log"
    points = [{"series": "critic", "x": 0, "success": 22.4}, {"series": "critic", "x": 15000, "success": 40.4}]
    ours, theirs = curves(results("critic@0", "critic@20"), paper=points).axes
    assert theirs.get_title() == "the paper" and "\nhere: protocol" in ours.get_xlabel()
    assert ours.get_ylim()[0] == theirs.get_ylim()[0] == 0
    assert theirs.lines[0].get_xydata().tolist() == [[0, 22.4], [15000, 40.4]] and ours.get_xscale() == "linear"


def test_the_same_figure_gives_the_same_files(tmp_path):
    first, second = (save_figure(table(results("a", "b")), tmp_path / name / "figure.png") for name in "xy")
    assert [path.name for path in first] == ["figure.png", "figure.svg"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    import matplotlib.image

    picture = matplotlib.image.imread(first[0])
    assert np.ptp(picture[..., :3]) == 1.0 and picture.shape[1] > 600


def test_the_command_draws_what_compare_runs_wrote(tmp_path):
    (tmp_path / "r.json").write_text(json.dumps(results("zero-shot", "SWEET-RL")))
    flags = {"kind": "table", "results": tmp_path / "r.json", "output_path": tmp_path / "out" / "table2"}
    done = call("../visualizers/plot_results.py", paper="table2", **flags)
    assert done.code == 0, done.err
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"table2.png", "table2.svg"}
    (tmp_path / "r.json").write_text("[]")
    assert "compare_runs.py writes them" in call("../visualizers/plot_results.py", **flags).err
