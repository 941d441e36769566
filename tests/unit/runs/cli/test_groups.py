"""Dataclasses of settings as flags of a script: built, renamed, recorded, and explained by --help."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import pytest

from sweet_rl.runs.cli import UNRECORDED, alias, flags_of, parse, parse_flags, prefix, to_settings
from sweet_rl.runs.cli.command import run
from sweet_rl.runs.cli.groups import argument_docs
from sweet_rl.runs.errors import UserError


@dataclass(frozen=True)
class Sampling:
    """How replies are sampled.

    Attributes:
        temperature: of sampling; 0 is greedy:
            the likeliest token.
        top_p: share of the probability that is kept.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    concurrency: Annotated[int, UNRECORDED] = 64
    stop: tuple[str, ...] = field(default_factory=tuple)

    def __post_init__(self):
        if self.temperature < 0:
            raise UserError(f"--temperature is {self.temperature}; it must not be negative (see --top_p, --seed).")


@dataclass(frozen=True)
class Critic:
    """A critic.

    Attributes:
        model_id: the model.
    """

    model_id: str
    kind: Annotated[str, alias("type")] = "value"
    seed: int = 0


def simple(path: str, sampling: Sampling, seed: int = 0):
    """Sample.

    Args:
        path: of the tasks.
    """


def test_the_fields_of_a_group_are_flags_of_the_script_and_the_group_is_built_from_those_given():
    flags = flags_of(simple)
    assert list(flags) == ["path", "temperature", "top_p", "concurrency", "stop", "seed"]
    assert flags["concurrency"].kind is int and flags["stop"].default == ()
    assert flags["temperature"].help == "of sampling; 0 is greedy: the likeliest token."
    words = ["--path", "p", "--temperature", "0.5", "--stop", "a,b"]
    assert parse(simple, words) == {"path": "p", "sampling": Sampling(0.5, stop=("a", "b"))}
    assert parse_flags(simple, words) == {"path": "p", "temperature": 0.5, "stop": ("a", "b")}  # no group is built
    assert parse(simple, ["--path", "p"]) == {"path": "p", "sampling": Sampling()}


def test_a_config_file_sets_fields_and_wrong_values_are_named_by_their_flag(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("path: p\ntemperature: 0.5\ntop_p: 0.25\n")
    words = ["--config", str(config)]
    assert parse(simple, [*words, "--top_p", "0.75"]) == {"path": "p", "sampling": Sampling(0.5, 0.75)}
    with pytest.raises(UserError, match="--top_q.* 'top_p'"):
        parse(simple, [*words, "--top_q", "1"])
    with pytest.raises(UserError, match="^--temperature is -1.0"):
        parse(simple, [*words, "--temperature", "-1"])


def test_a_script_overrides_the_defaults_of_a_group():
    def main(sampling: Sampling = Sampling(temperature=0.25)):
        """."""

    assert flags_of(main)["temperature"].default == 0.25
    assert parse(main, []) == {}
    assert parse(main, ["--top_p", "0.5"]) == {"sampling": Sampling(0.25, 0.5)}


def test_a_prefix_makes_two_groups_of_one_kind_possible_and_its_checks_name_the_flags_with_the_prefix():
    def main(agent: Annotated[Sampling, prefix("agent_")], human: Annotated[Sampling, prefix("env_")] = Sampling(0.0)):
        """."""

    got = parse(main, ["--agent_temperature", "0.5", "--env_top_p", "0.75"])
    assert got == {"agent": Sampling(0.5), "human": Sampling(0.0, 0.75)}
    with pytest.raises(UserError, match=r"^--agent_temperature is -1.0; .* \(see --agent_top_p, --seed\)"):
        parse(main, ["--agent_temperature", "-1"])


Judge = Annotated[Critic | None, prefix("critic_", model_id="critic", seed=None)]


def judged(critic: Judge = None, seed: int = 0):
    """."""


def test_fields_are_renamed_or_make_no_flag():
    assert list(flags_of(judged)) == ["critic", "critic_kind", "seed"]
    expected = {"critic": Critic("c", "judge"), "seed": 3}
    for kind in ("--critic_kind", "--critic_type"):  # another name takes the prefix too
        assert parse(judged, ["--critic", "c", kind, "judge", "--seed", "3"]) == expected


def test_an_optional_group_is_none_unless_one_of_its_flags_is_given_and_then_needs_its_required_fields():
    assert parse(judged, ["--seed", "3"]) == {"seed": 3}
    with pytest.raises(UserError, match="--critic "):
        parse(judged, ["--critic_kind", "judge"])

    def required(critic: Critic):
        """."""

    with pytest.raises(UserError, match="--model_id"):
        parse(required, [])


def clash_with_own(sampling: Sampling, temperature: float = 1.0): ...


def clash_of_alias(critic: Critic, type: str = ""): ...


def clash_with_config(config: str): ...


def renamed_without_field(critic: Annotated[Critic, prefix("", mode="critic")]): ...


@pytest.mark.parametrize("main", [clash_with_own, clash_of_alias, clash_with_config, renamed_without_field])
def test_two_settings_of_one_name_or_a_name_for_no_field_are_an_error_of_the_program(main):
    with pytest.raises(TypeError, match="two settings|no fields"):
        parse(main, [])


def aliased(source: Annotated[str, alias("data_path", "input")], flag: Annotated[bool, alias("old_flag")] = True):
    """."""


def test_a_setting_is_found_by_each_of_its_names():
    for name in ("source", "data_path", "input", "data-path"):
        assert parse(aliased, [f"--{name}", "x"]) == {"source": "x"}
    assert parse(aliased, ["--source", "x", "--noold_flag"])["flag"] is False
    with pytest.raises(UserError, match="--source "):
        parse(aliased, [])


def test_two_names_with_different_values_contradict_each_other_unless_one_stands_in_a_config(tmp_path):
    assert parse(aliased, ["--source", "x", "--input", "x"]) == {"source": "x"}
    with pytest.raises(UserError, match="--source and --input"):
        parse(aliased, ["--source", "x", "--input", "y"])
    config = tmp_path / "config.yaml"
    config.write_text("data_path: x\n")
    assert parse(aliased, ["--config", str(config), "--source", "y"]) == {"source": "y"}


def test_settings_join_groups_and_other_values_without_what_does_not_influence_the_result():
    assert to_settings(Sampling(0.5), critic=Critic("c"), seed=3, limit=None) == {
        "temperature": 0.5,
        "top_p": 1.0,
        "stop": (),
        "critic": {"model_id": "c", "kind": "value", "seed": 0},
        "seed": 3,
        "limit": None,
    }
    with pytest.raises(TypeError, match="seed"):
        to_settings(Critic("c"), seed=3)


def helped(source: Annotated[str, alias("data_path")], sampling: Sampling = Sampling(top_p=0.625)):
    """Samples replies.

    Args:
        source: The tasks. One per line.
    """


def shown_help(capsys, *words: str) -> str:
    with pytest.raises(SystemExit) as end:
        run(helped, ["--help", *words])
    assert end.value.code == 0
    return capsys.readouterr().out.strip()


def test_help_explains_required_flags_first_and_names_those_of_each_group_with_their_defaults(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    purpose, _, required, settings, group = shown_help(capsys).split("\n\n")
    assert purpose == "Samples replies."
    assert required.splitlines()[1].split() == "--source TEXT The tasks. Also --data_path.".split()
    assert "--config" in settings
    heading, *lines = group.splitlines()
    assert heading == "How replies are sampled:"
    assert lines == ["  --temperature=1.0 --top_p=0.625 --concurrency=64 --stop"]


def test_help_all_has_a_line_for_each_flag_and_help_flag_its_whole_text(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    heading, *lines = shown_help(capsys, "all").split("\n\n")[-1].splitlines()
    assert heading == "How replies are sampled:" and len(lines) == 4
    assert lines[1].split() == "--top_p NUMBER share of the probability that is kept. [0.625]".split()
    for name in ("source", "data_path"):  # by any of its names
        assert shown_help(capsys, name).split() == "--source TEXT The tasks. One per line. Also --data_path.".split()


def test_documented_arguments_are_read_from_both_kinds_of_docstring():
    lines = ["Do it.", "", "    Args:", "        a: one", "            and: more", "", "        b (int): two"]
    text = "\n".join([*lines, "", "    Returns:", "        c: no"])
    assert argument_docs(text) == {"a": "one and: more", "b": "two"}
    assert argument_docs(text.replace("Args", "Attributes")) == {"a": "one and: more", "b": "two"}
    assert argument_docs(None) == {}


@dataclass(frozen=True)
class Warm(Sampling):
    """Warm.

    Attributes:
        warmth: in degrees.
    """

    warmth: int = 3


def test_a_derived_group_has_the_texts_of_its_base():
    def main(warm: Warm): ...

    flags = flags_of(main)
    assert flags["warmth"].help == "in degrees." and flags["top_p"].help
