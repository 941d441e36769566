"""Numbers and shapes that no honest file has are refused with their place, before any work, and end nothing in a
traceback."""

import pytest

from sweet_rl.evaluation.compare import ComparisonSettings, compare_files
from sweet_rl.runs.errors import RecordError
from sweet_rl.runs.records import Trajectory, read_records
from sweet_rl.viewer.show import ViewSettings, show
from tests.support.command_line import write_rows
from tests.support.dialogues import graded


def rows() -> list[dict]:
    return [one.to_dict() for one in graded()]


@pytest.mark.parametrize("reward", [5, -0.001, 1.0000001, 1e300, True, "1"])
def test_no_figure_is_made_of_a_reward_outside_of_0_to_1(tmp_path, reward):
    path = write_rows(tmp_path / "f.jsonl", [*rows()[:-1], rows()[-1] | {"reward": reward}])
    place = f"line {len(rows())}: the field 'reward'"
    with pytest.raises(RecordError, match=place):
        compare_files(ComparisonSettings(runs=f"a={path}"))
    with pytest.raises(RecordError, match=place):
        show(ViewSettings(str(path)))


@pytest.mark.parametrize("failure", [{"kind": ["x"]}, {"kind": {}}, {"message": 3}, ["x"]])
def test_the_kind_of_a_failure_is_text(tmp_path, failure):
    path = write_rows(tmp_path / "f.jsonl", [rows()[0] | {"ending": "failed", "failure": failure}])
    with pytest.raises(RecordError, match="line 1: the field 'failure'"):
        read_records(path, Trajectory)
    known = {"kind": "timeout", "more": [1]}
    write_rows(path, [rows()[0] | {"ending": "failed", "failure": known}])
    assert read_records(path, Trajectory)[0].failure == known
