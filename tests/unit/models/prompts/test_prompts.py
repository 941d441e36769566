"""Prompt files and how they are filled in."""

import pytest

from sweet_rl.dialogues.simulated_human import PROMPT_VALUES
from sweet_rl.models.prompts import fill, load_prompt
from sweet_rl.runs.errors import UserError


def test_the_packages_own_prompts_hold_what_is_filled_in():
    assert load_prompt("mini_agent.txt", ["problem_description"]) == "{problem_description}"
    assert "I WANT TO ANSWER:" in load_prompt("code_agent.txt", ["problem_description", "max_turns"])
    assert load_prompt("code_user.txt", PROMPT_VALUES)


def test_values_are_put_in_at_once_and_other_braces_stay():
    assert fill("{a} {b} {c}", a="{b}", b="{a}") == "{b} {a} {c}"
    assert fill("x = {'k': {n}}", n=1) == "x = {'k': 1}"


def test_a_missing_file_and_a_missing_name_are_said(tmp_path):
    with pytest.raises(UserError, match="code_agent.txt"):
        load_prompt(tmp_path / "nothing.txt", [])
    (tmp_path / "own.txt").write_text("Solve it.")
    with pytest.raises(UserError, match=r"\{problem_description\}"):
        load_prompt(tmp_path / "own.txt", ["problem_description"])
