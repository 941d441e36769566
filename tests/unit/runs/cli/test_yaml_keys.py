"""A key of YAML stands once, at whatever depth and however it is written."""

import pytest
import yaml

from sweet_rl.runs.cli import parse
from sweet_rl.runs.cli.values import coerce, read_yaml
from sweet_rl.runs.errors import UserError


def main(settings: dict, beta: float = 0.1) -> None:
    """A script."""


@pytest.mark.parametrize(
    "text",
    ["beta: 1\nsettings: {}\nbeta: 2\n", "settings: {a: 1, 'a': 1}\n", "settings:\n  b:\n  - {c: 1, d: 2, c: 3}\n"],
)
def test_a_key_that_is_there_twice_is_refused_with_its_line(text, tmp_path):
    config = tmp_path / "settings.yaml"
    config.write_text(text)
    with pytest.raises(UserError, match=r"(?s)settings.yaml.*the key '\w+' is there twice.*line \d"):
        parse(main, ["--config", str(config)])


def test_a_flag_whose_value_is_a_mapping_has_each_key_once_too():
    with pytest.raises(UserError, match="--settings is .*expected a mapping"):
        parse(main, ["--settings", "{a: 1, a: 2}"])
    assert parse(main, ["--settings", "{a: 1, b: 2}"])["settings"] == {"a": 1, "b": 2}


def test_a_merged_mapping_may_be_overridden_and_deep_nesting_is_a_yaml_error():
    assert read_yaml("base: &base {a: 1, b: 2}\nown: {<<: *base, b: 3}\n")["own"] == {"a": 1, "b": 3}
    with pytest.raises(yaml.YAMLError, match="nested"):
        read_yaml("[" * 5000)


def test_numbers_are_those_that_are_written(tmp_path):
    found = read_yaml("[7, -7, +7, 0, 1_000, 0x1f, 1.5, -.5, 1., 1.5e-3, .inf, 0256, 1:30, 1:30.5, 0b1]")
    assert found == [7, -7, 7, 0, 1000, 31, 1.5, -0.5, 1.0, 0.0015, float("inf"), "0256", "1:30", "1:30.5", "0b1"]
    config = tmp_path / "settings.yaml"
    config.write_text("settings: {}\nbeta: 010\n")
    assert (
        parse(main, ["--config", str(config)])["beta"] == 10.0 == parse(main, ["--beta=010", "--settings={}"])["beta"]
    )
    config.write_text("settings: {}\nbeta: 1:30\n")
    with pytest.raises(UserError, match="'beta' in .* is '1:30'; expected a number"):
        parse(main, ["--config", str(config)])


def test_a_text_with_a_nul_is_no_setting():
    with pytest.raises(UserError, match="x is .*; expected text"):
        coerce(read_yaml('"a\\0b"'), str, "x")
