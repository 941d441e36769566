"""A wrong value is refused as the value of its own flag, before anything is done with it."""

import pytest

from sweet_rl.runs.cli import parse
from sweet_rl.runs.cli.command import split
from sweet_rl.runs.errors import UserError
from tests.support.command_line import call


def main(seed: int = 0, hash_seed: int | None = None, limit: int = -1) -> None:
    """A script."""


@pytest.mark.parametrize("name", ["seed", "hash_seed"])
@pytest.mark.parametrize("value", ["-1", "4294967296", "-99999999999999999999"])
def test_a_seed_that_a_random_generator_would_refuse_is_refused(name, value):
    with pytest.raises(UserError, match=f"--{name}.* is {value}"):
        parse(main, [f"--{name}={value}"])


def test_other_numbers_and_seeds_in_range_are_taken():
    found = parse(main, ["--seed", "4294967295", "--hash_seed", "none", "--limit", "-5"])
    assert found == {"seed": 2**32 - 1, "hash_seed": None, "limit": -5}


def test_a_wrong_value_of_a_switch_is_not_taken_for_another_flag():
    result = call("train_dpo.py", "--bf16", "maybe", "--learning_rate", "0.5")
    assert result.code == 2 and result.err.startswith("error: --bf16 is 'maybe'"), result.err


def test_a_path_or_a_model_may_follow_a_switch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outputs").mkdir()
    for word in ("a.jsonl", "org/model", "outputs"):
        assert split(["--in_place", word], {"in_place"}) == ({"in_place": None}, [word])
