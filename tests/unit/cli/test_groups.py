from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import pytest

from sweet_rl.cli import UNRECORDED, alias, flags_of, parse, parse_flags, prefix, to_settings
from sweet_rl.cli.command import run
from sweet_rl.cli.groups import argument_docs
from sweet_rl.errors import UserError


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


def test_the_fields_of_a_group_are_flags_of_the_script():
    flags = flags_of(simple)
    assert list(flags) == ["path", "temperature", "top_p", "concurrency", "stop", "seed"]
    assert flags["concurrency"].kind is int and flags["concurrency"].default == 64
    assert flags["stop"].default == ()
    assert flags["temperature"].help == "of sampling; 0 is greedy: the likeliest token."


def test_a_group_is_built_from_the_flags_that_were_given():
    got = parse(simple, ["--path", "p", "--temperature", "0.5", "--stop", "a,b"])
    assert got == {"path": "p", "sampling": Sampling(0.5, stop=("a", "b"))}


def test_a_group_without_a_default_is_built_when_nothing_was_given():
    assert parse(simple, ["--path", "p"])["sampling"] == Sampling()


def test_flat_values_can_be_read_without_building_groups():
    assert parse_flags(simple, ["--path", "p", "--top_p", "0.5"]) == {"path": "p", "top_p": 0.5}


def test_a_config_file_sets_fields_and_the_command_line_wins(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("path: p\ntemperature: 0.5\ntop_p: 0.25\n")
    got = parse(simple, ["--config", str(config), "--top_p", "0.75"])
    assert got == {"path": "p", "sampling": Sampling(0.5, 0.75)}


def test_a_wrong_field_in_a_config_file_is_named_with_its_file(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("path: p\ntemperature: warm\n")
    with pytest.raises(UserError, match="'temperature' in .*config.yaml is 'warm'; expected a number"):
        parse(simple, ["--config", str(config)])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--path", "p", "--top_q", "1"], "unknown setting --top_q. Did you mean 'top_p'"),
        (["--path", "p", "--top_p", "x"], "--top_p is 'x'; expected a number"),
        (["--path", "p", "--concurrency"], "--concurrency has no value; expected a whole number"),
        (["--top_p", "1"], "missing: --path"),
        (["--path", "p", "--temperature", "-1"], "--temperature is -1.0; it must not be negative"),
    ],
)
def test_wrong_values_of_fields_are_named_by_their_flag(words, message):
    with pytest.raises(UserError) as error:
        parse(simple, words)
    assert message in str(error.value)


def test_a_script_overrides_the_defaults_of_a_group():
    def main(sampling: Sampling = Sampling(temperature=0.25)):
        """."""

    assert flags_of(main)["temperature"].default == 0.25
    assert parse(main, []) == {}
    assert parse(main, ["--top_p", "0.5"]) == {"sampling": Sampling(0.25, 0.5)}


def test_a_prefix_makes_two_groups_of_one_kind_possible():
    def main(agent: Annotated[Sampling, prefix("agent_")], human: Annotated[Sampling, prefix("env_")] = Sampling(0.0)):
        """."""

    got = parse(main, ["--agent_temperature", "0.5", "--env_top_p", "0.75"])
    assert got == {"agent": Sampling(0.5), "human": Sampling(0.0, 0.75)}


def test_a_check_of_a_prefixed_group_names_the_flags_with_the_prefix():
    def main(agent: Annotated[Sampling, prefix("agent_")]):
        """."""

    with pytest.raises(UserError, match=r"^--agent_temperature is -1.0; .* \(see --agent_top_p, --seed\)"):
        parse(main, ["--agent_temperature", "-1"])


Judge = Annotated[Critic | None, prefix("critic_", model_id="critic", seed=None)]


def judged(critic: Judge = None, seed: int = 0):
    """."""


def test_fields_are_renamed_or_make_no_flag():
    assert list(flags_of(judged)) == ["critic", "critic_kind", "seed"]
    assert parse(judged, ["--critic", "c", "--critic_kind", "judge", "--seed", "3"]) == {
        "critic": Critic("c", "judge"),
        "seed": 3,
    }


def test_an_optional_group_is_none_unless_one_of_its_flags_is_given():
    assert parse(judged, ["--seed", "3"]) == {"seed": 3}
    with pytest.raises(UserError, match="^missing: --critic "):
        parse(judged, ["--critic_kind", "judge"])


def test_a_required_field_of_a_group_is_a_required_flag():
    def main(critic: Critic):
        """."""

    with pytest.raises(UserError, match="^missing: --model_id "):
        parse(main, [])


def test_a_prefix_for_a_field_that_does_not_exist_is_an_error_of_the_program():
    def main(critic: Annotated[Critic, prefix("", mode="critic")]):
        """."""

    with pytest.raises(TypeError, match="Critic has no fields mode"):
        flags_of(main)


def clash_with_own(sampling: Sampling, temperature: float = 1.0): ...


def clash_of_groups(one: Sampling, other: Annotated[Sampling, prefix("")] = Sampling()): ...


def clash_of_alias(critic: Critic, type: str = ""): ...


def clash_with_config(config: str): ...


@pytest.mark.parametrize("main", [clash_with_own, clash_of_groups, clash_of_alias, clash_with_config])
def test_two_settings_of_one_name_are_an_error_of_the_program(main):
    with pytest.raises(TypeError, match="two settings are named --"):
        parse(main, [])


def aliased(source: Annotated[str, alias("data_path", "input")], flag: Annotated[bool, alias("old_flag")] = True):
    """."""


@pytest.mark.parametrize("name", ["source", "data_path", "input", "data-path"])
def test_a_setting_is_found_by_each_of_its_names(name):
    assert parse(aliased, [f"--{name}", "x"]) == {"source": "x"}


def test_a_boolean_is_negated_by_its_other_name_too():
    assert parse(aliased, ["--source", "x", "--noold_flag"])["flag"] is False


def test_an_alias_in_a_group_takes_the_prefix():
    assert parse(judged, ["--critic", "c", "--critic_type", "judge"])["critic"].kind == "judge"


def test_two_names_with_different_values_contradict_each_other():
    with pytest.raises(UserError, match="^--source and --input mean the same: give one of them."):
        parse(aliased, ["--source", "x", "--input", "y"])
    assert parse(aliased, ["--source", "x", "--input", "x"]) == {"source": "x"}


def test_the_command_line_wins_over_another_name_in_the_config_file(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("data_path: x\n")
    assert parse(aliased, ["--config", str(config), "--source", "y"]) == {"source": "y"}
    config.write_text("data_path: x\nsource: y\n")
    with pytest.raises(UserError, match="'data_path' in .* and 'source' in .* mean the same"):
        parse(aliased, ["--config", str(config)])


def test_a_missing_setting_is_named_by_its_first_name():
    with pytest.raises(UserError, match="^missing: --source "):
        parse(aliased, [])


def test_settings_leave_out_what_does_not_influence_the_result():
    assert to_settings(Sampling(0.5)) == {"temperature": 0.5, "top_p": 1.0, "stop": ()}


def test_settings_join_groups_and_other_values():
    got = to_settings(Sampling(), critic=Critic("c"), seed=3, limit=None)
    assert got == {
        "temperature": 1.0,
        "top_p": 1.0,
        "stop": (),
        "critic": {"model_id": "c", "kind": "value", "seed": 0},
        "seed": 3,
        "limit": None,
    }


def test_settings_of_one_name_twice_are_an_error_of_the_program():
    with pytest.raises(TypeError, match="two settings are named seed"):
        to_settings(Critic("c"), seed=3)


def helped(source: Annotated[str, alias("data_path")], sampling: Sampling = Sampling(top_p=0.625)):
    """Samples replies.

    Args:
        source: The tasks. One per line.
    """


def test_help_shows_required_flags_first_then_a_line_per_flag_under_the_heading_of_its_group(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit) as end:
        run(helped, ["--help"])
    assert end.value.code == 0
    purpose, _, required, settings, group = capsys.readouterr().out.strip().split("\n\n")
    assert purpose == "Samples replies."
    assert required.splitlines()[1].split() == "--source TEXT The tasks. Also --data_path.".split()
    assert settings.startswith("Settings:\n  --config TEXT")
    heading, *lines = group.splitlines()
    assert heading == "How replies are sampled:" and len(lines) == 4
    assert lines[1].split() == "--top_p NUMBER share of the probability that is kept. [0.625]".split()


def test_help_of_a_flag_shows_all_of_its_text_by_any_of_its_names(capsys):
    with pytest.raises(SystemExit):
        run(helped, ["--help", "data_path"])
    assert capsys.readouterr().out.split() == "--source TEXT The tasks. One per line. Also --data_path.".split()


def test_documented_arguments_are_read_from_both_kinds_of_docstring():
    lines = ["Do it.", "", "    Args:", "        a: one", "            and: more", "", "        b (int): two"]
    text = "\n".join([*lines, "", "    Returns:", "        c: no"])
    assert argument_docs(text) == {"a": "one and: more", "b": "two"}
    assert argument_docs(text.replace("Args", "Attributes")) == {"a": "one and: more", "b": "two"}
    assert argument_docs(None) == {}


def test_a_derived_group_has_the_texts_of_its_base():
    @dataclass(frozen=True)
    class Warm(Sampling):
        """Warm.

        Attributes:
            warmth: in degrees.
        """

        warmth: int = 3

    def main(warm): ...

    main.__annotations__["warm"] = Warm
    flags = flags_of(main)
    assert flags["warmth"].help == "in degrees." and flags["top_p"].help
