"""The files that the measures of critics read: whole, each once, and ranked."""

import pytest

from lab.critics.measure_mini_credit import named_files
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.run import open_run
from tests.support.command_line import call, write_rows
from tests.support.script_calls import place  # noqa: F401

# ruff: noqa: F811 (place is a fixture)


def test_a_ranked_file_is_one_seed_of_a_name(tmp_path):
    rows = [{"id": "a", "judge_scores": [1, 2]}, {"id": "b", "judge_scores": [2, 1]}]
    first = write_rows(tmp_path / "first.jsonl", rows)
    other = write_rows(tmp_path / "other.jsonl", [rows[0], rows[1] | {"judge_scores": [2, 1.5]}])
    assert named_files(f"a={first}+{other},b={first}") == {"a": [str(first), str(other)], "b": [str(first)]}
    with pytest.raises(UserError, match="give each file once"):
        named_files(f"a={first}+{other}+{first}")


def test_an_unfinished_file_is_refused(tmp_path):
    with open_run(tmp_path / "ranked.jsonl", {}) as run:
        run.write_missing([{"id": "a", "judge_scores": [1, 2]}])
    with pytest.raises(UserError, match="not finished"):
        named_files(f"a={tmp_path / 'ranked.jsonl'}")


@pytest.mark.parametrize(("runs", "said"), [
    ("a={place}/ranked.jsonl,a={place}/ranked.jsonl", "once"),
    ("a={place}/unranked.jsonl", "rank_best_of_n.py"),
    ("", "--runs"),
])  # fmt: skip
def test_runs_that_cannot_be_measured_are_named_and_nothing_is_written(runs, said, place, tmp_path):
    output = tmp_path / "credit.json"
    done = call("lab.critics.measure_mini_credit", runs=runs.format(place=place), output_path=output)
    assert done.code == 2 and done.err.splitlines()[-1].startswith("error: ") and said in done.err
    assert not output.exists()
