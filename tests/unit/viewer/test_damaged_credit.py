"""A credit file with anything in the place of a number is refused with its line."""

import pytest

from sweet_rl.runs.errors import UserError
from sweet_rl.viewer.credit_file import CreditFile
from tests.support.command_line import write_rows

TURN = {"turn": 0, "advantage": 0.5, "tokens": ["a"], "critic": [-1.0], "reference": [-2]}


def test_credit_as_it_is_written_is_read(tmp_path):
    path = write_rows(tmp_path / "credit.jsonl", [{"id": "a", "turns": [TURN, {"turn": 1, "advantage": -1}]}])
    assert CreditFile(path).turns("a") == {0: {k: v for k, v in TURN.items() if k != "turn"}, 1: {"advantage": -1}}


@pytest.mark.parametrize("key", TURN)
@pytest.mark.parametrize("value", ["text", {"a": 1}, True, [None], [["x"]]])
def test_text_for_a_number_is_refused_with_its_line(key, value, tmp_path):
    rows = [{"id": "a", "turns": [TURN]}, {"id": "b", "turns": [TURN, TURN | {key: value}]}]
    path = write_rows(tmp_path / "credit.jsonl", rows)
    with pytest.raises(UserError, match=rf"line 2: .*'turns'\[1\]\.{key}"):
        CreditFile(path)


@pytest.mark.parametrize("turns", [[7], [[TURN]], ["text"], [{}], [None]])
def test_turns_that_are_no_rows_are_refused(turns, tmp_path):
    path = write_rows(tmp_path / "credit.jsonl", [{"id": "a", "turns": turns}])
    with pytest.raises(UserError, match=r"line 1: .*'turns'\[0\]"):
        CreditFile(path)
