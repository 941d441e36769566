"""A key of YAML stands once, at whatever depth and however it is written."""

import pytest
import yaml

from sweet_rl.runs.cli import parse
from sweet_rl.runs.cli.values import read_yaml
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
