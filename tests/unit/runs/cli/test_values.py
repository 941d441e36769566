"""Values of flags and of YAML as the types of their annotations."""

from typing import Any, Literal

import pytest

from sweet_rl.runs.cli import parse
from sweet_rl.runs.cli.values import coerce
from sweet_rl.runs.errors import UserError


def main(
    agent_model: str,
    num_tasks: int = 10,
    beta: float = 0.1,
    progress: bool = True,
    hostname: list[str] | None = None,
    limit: int | None = None,
    weights: tuple[float, ...] = (),
):
    """Does nothing."""


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["--agent_model", "1e5"], "agent_model", "1e5"),
        (["--agent_model=a,b"], "agent_model", "a,b"),
        (["--agent_model=--odd"], "agent_model", "--odd"),
        (["--agent_model", "None"], "agent_model", "None"),
        (["--agent_model", ""], "agent_model", ""),
        (["--num_tasks", "-3"], "num_tasks", -3),
        (["--num-tasks=7"], "num_tasks", 7),
        (["--beta", "2"], "beta", 2.0),
        (["--progress"], "progress", True),
        (["--noprogress"], "progress", False),
        (["--no-progress"], "progress", False),
        (["--progress", "False"], "progress", False),
        (["--hostname", "a:8000,b"], "hostname", ["a:8000", "b"]),
        (["--hostname=None"], "hostname", None),
        (["--limit", "null"], "limit", None),
        (["--weights", "1,2.5"], "weights", (1.0, 2.5)),
        (["--weights", "[1, 2]"], "weights", (1.0, 2.0)),
    ],
)
def test_a_flag_has_the_type_of_its_annotation(words, name, value):
    got = parse(main, ["--agent_model", "m", *words])[name]
    assert got == value and type(got) is type(value)


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ([1, "2"], list[int], [1, 2]),
        (3, list[int], [3]),
        ("3", Literal[1, 3], 3),
        ("none", Literal["turn", "none"] | None, "none"),
        ("{a: 1}", dict, {"a": 1}),
        ("a=b", dict | str, "a=b"),
        (3, float, 3.0),
        (3, str, "3"),
        ("x", Any, "x"),
        (" a , b,", list[str], ["a", "b"]),
        ("(1, 2)", tuple[int, ...], (1, 2)),
    ],
)
def test_a_value_of_yaml_or_text_is_taken_as_its_kind(value, kind, expected):
    got = coerce(value, kind, "--x")
    assert got == expected and type(got) is type(expected)


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        (True, int, "a whole number"),
        (2.0, int, "a whole number"),
        ("2.0", int, "a whole number"),
        (None, str, "text"),
        (True, str, "text"),
        ("[1", dict, "a mapping"),
        ("nan", float, "a number"),
        ("1e999", float, "a number"),
        ("2", bool, "true or false"),
        ("c", Literal["a", "b"], "'a' or 'b'"),
        (["x"], list[int], "a whole number, several"),
        ("x", int | None, "a whole number or nothing"),
    ],
)
def test_a_value_of_another_kind_is_refused_with_what_was_expected(value, kind, words):
    with pytest.raises(UserError, match="--x") as error:
        coerce(value, kind, "--x")
    assert words in str(error.value)
