"""A `main` with its groups of settings, its command line and its config file."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import pytest

from sweet_rl.runs.cli import (
    UNRECORDED,
    as_kind,
    build,
    find_config,
    flags_of,
    kinds_of,
    packaged_config,
    parse,
    parse_flags,
    prefix,
    run,
    to_settings,
)
from sweet_rl.runs.errors import NothingMade, UserError
from sweet_rl.runs.released import Released
from tests.support.command_line import ROOT


def main(
    agent_model: str,
    num_tasks: int = 10,
    beta: float = 0.1,
    progress: bool = True,
    hostname: list[str] | None = None,
    limit: int | None = None,
    weights: tuple[float, ...] = (),
    kind: Literal["turn", "none"] | None = None,
    request: dict | None = None,
    seed: int = 0,
):
    """Does nothing."""


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["--agent_model", "1e5"], "agent_model", "1e5"),
        (["--agent_model=--odd"], "agent_model", "--odd"),
        (["--agent_model", "None"], "agent_model", "None"),
        (["--num_tasks", "-3"], "num_tasks", -3),
        (["--num-tasks=7"], "num_tasks", 7),
        (["--beta", "2e-7"], "beta", 2e-7),
        (["--progress"], "progress", True),
        (["--no-progress"], "progress", False),
        (["--hostname", "a:8000,b"], "hostname", ["a:8000", "b"]),
        (["--hostname=None"], "hostname", None),
        (["--limit", "null"], "limit", None),
        (["--weights", "1,2.5"], "weights", (1.0, 2.5)),
        (["--kind", "none"], "kind", "none"),
        (["--request", "{a: 1, b: [x]}"], "request", {"a": 1, "b": ["x"]}),
    ],
)
def test_a_flag_has_the_type_of_its_annotation(words, name, value):
    got = parse(main, ["--agent_model", "m", *words])[name]
    assert got == value and type(got) is type(value)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--num_task", "3"], "--num_task"),
        (["--num_tasks", "3.5"], "--num_tasks is '3.5'"),
        (["--num_tasks"], "--num_tasks is 'True'"),
        (["--agent_model", "--progress"], "--agent_model has no value"),
        (["--beta", "nan"], "--beta is 'nan'"),
        (["--kind", "c"], "--kind is 'c'.*'turn' or 'none'"),
        (["--request", "[1"], "--request is '.1'"),
        (["--hostname", "a", "b"], "'b' has no flag before it.*separated by commas"),
        (["--seed=-1"], "--seed is -1"),
        (["--config", "no.yaml"], "no.yaml"),
    ],
)
def test_a_wrong_command_line_is_an_error_that_names_the_flag(words, named):
    with pytest.raises(UserError, match=named):
        parse(main, ["--agent_model", "m", *words])
    with pytest.raises(UserError, match="missing: --agent_model"):
        parse(main, ["--num_tasks", "3"])


@pytest.fixture
def config(tmp_path):
    def write(text):
        path = tmp_path / "config.yaml"
        path.write_text(text)
        return str(path)

    return write


def test_a_config_file_gives_values_and_a_flag_by_hand_wins(config):
    path = config("agent_model: 8\nnum_tasks: 5\nbeta: 1e-5\nlimit: null\nprogress: no\nhostname: a\n")
    assert parse(main, ["--config", path, "--num_tasks", "6"]) == {
        "agent_model": "8",
        "num_tasks": 6,
        "beta": 1e-5,
        "limit": None,
        "progress": False,
        "hostname": ["a"],
    }


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("num_taks: 3", "'num_taks' in .*config.yaml"),
        ("num_tasks: x", "'num_tasks' in .*config.yaml is 'x'"),
        ("- a", "list"),
        ("a: [", "YAML"),
    ],
)
def test_a_wrong_config_file_is_an_error_that_names_file_and_setting(config, text, named):
    with pytest.raises(UserError, match=named):
        parse(main, ["--config", config(text)])


def test_a_packaged_config_is_found_by_its_name_and_a_file_of_that_name_wins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    packaged = packaged_config("paper/backend/critic.yaml")
    assert packaged.is_file()
    assert find_config("paper/backend/critic.yaml") == find_config("configs/paper/backend/critic.yaml") == packaged
    own = tmp_path / "paper" / "backend" / "critic.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("seed: 1\n")
    assert find_config("paper/backend/critic.yaml") == Path("paper/backend/critic.yaml")


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
    kind: str = "value"
    seed: int = 0


def simple(path: str, sampling: Sampling, seed: int = 0):
    """Sample.

    Args:
        path: of the tasks.
    """


def test_the_fields_of_a_group_are_flags_of_the_script_and_the_group_is_built_from_those_given():
    flags = flags_of(simple)
    assert list(flags) == ["path", "temperature", "top_p", "concurrency", "stop", "seed"]
    assert kinds_of(flags["concurrency"].kind) == (int,) and flags["stop"].default == ()
    assert flags["temperature"].help == "of sampling; 0 is greedy: the likeliest token."
    words = ["--path", "p", "--temperature", "0.5", "--stop", "a,b"]
    assert parse(simple, words) == {"path": "p", "sampling": Sampling(0.5, stop=("a", "b"))}
    assert parse_flags(simple, words) == {"path": "p", "temperature": 0.5, "stop": ("a", "b")}  # no group is built
    assert parse(simple, ["--path", "p"]) == {"path": "p", "sampling": Sampling()}
    with pytest.raises(UserError, match="^--temperature is -1.0"):
        parse(simple, ["--path", "p", "--temperature", "-1"])


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
    assert parse(judged, ["--critic", "c", "--critic_kind", "judge", "--seed", "3"]) == expected


def test_an_optional_group_is_none_unless_one_of_its_flags_is_given_and_then_needs_its_required_fields():
    assert parse(judged, ["--seed", "3"]) == {"seed": 3}
    with pytest.raises(UserError, match="missing: --critic\\."):
        parse(judged, ["--critic_kind", "judge"])


def clash_with_own(sampling: Sampling, temperature: float = 1.0): ...


def clash_with_config(config: str): ...


@pytest.mark.parametrize("main", [clash_with_own, clash_with_config])
def test_two_settings_of_one_name_are_an_error_of_the_program(main):
    with pytest.raises(TypeError, match="two settings"):
        parse(main, [])


def named(source: str, flag: bool = True):
    """."""


def test_a_setting_is_found_by_its_released_names_and_two_of_them_contradict_each_other():
    script = Released(names={"data_path": "source", "input": "source", "old_flag": "flag"})
    for name in ("source", "data_path", "input", "data-path"):
        assert parse(named, [f"--{name}", "x"], script) == {"source": "x"}
    assert parse(named, ["--source", "x", "--noold_flag"], script)["flag"] is False
    assert parse(named, ["--source", "x", "--input", "x"], script) == {"source": "x"}
    with pytest.raises(UserError, match="--source and --input"):
        parse(named, ["--source", "x", "--input", "y"], script)


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


@dataclass(frozen=True)
class Judging:
    path: str
    scale: float = 1.0
    aggregate: Literal["mean", "sum"] = "mean"
    layers: tuple[int, ...] = ()

    def __post_init__(self):
        if self.scale <= 0:
            raise UserError(f"scale is {self.scale}; it must be positive.")


def test_a_mapping_becomes_a_dataclass_of_checked_fields():
    values = {"path": "m", "scale": 2, "layers": [1, 2], "aggregate": "sum"}
    assert build(Judging, values, "--x") == Judging("m", 2.0, aggregate="sum", layers=(1, 2))
    assert as_kind("a=b", dict | str, "--x") == "a=b"


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({}, "^--x: missing path"),
        ({"path": "m", "bf": 1}, "^--x: .*'bf'"),
        ({"path": "m", "layers": "many"}, "^'layers' in --x is 'many'"),
        ({"path": "m", "scale": 0}, "scale is 0.0"),
    ],
)
def test_a_wrong_mapping_is_an_error_that_names_the_setting_and_its_place(values, named):
    with pytest.raises(UserError, match=named):
        build(Judging, values, "--x")


def helped(source: str, sampling: Sampling = Sampling(top_p=0.625)):
    """Samples replies.

    Args:
        source: The tasks.
    """


def test_help_has_the_flags_of_each_group_with_their_texts_and_defaults(capsys):
    run(helped, ["--help"])
    purpose, required, settings, group = capsys.readouterr().out.strip().split("\n\n")
    assert purpose == "Samples replies."
    assert required.splitlines() == ["Required:", "  --source TEXT", "      The tasks."]
    assert "--config" in settings
    assert group.splitlines()[0] == "How replies are sampled:"
    assert group.splitlines()[3:5] == ["  --top_p NUMBER [0.625]", "      share of the probability that is kept."]


@pytest.mark.parametrize("word", ["--local_rank=1", "--local-rank=1"])
def test_the_word_that_a_launcher_adds_is_left_out(word):
    assert parse(main, [word, "--agent_model", "m"]) == {"agent_model": "m"}


@pytest.mark.parametrize(
    ("error", "code", "printed"),
    [
        (UserError("the file is empty"), 2, "error: the file is empty\n"),
        (NothingMade("nothing"), 1, "error: nothing\n"),
        (OSError(28, "No space left"), 2, "error: [Errno 28] No space left\n"),
        (KeyboardInterrupt(), 130, "\ninterrupted: run the same command again to continue\n"),
    ],
)
def test_an_error_of_the_user_and_an_interruption_are_a_line_and_an_exit_code(error, code, printed, capsys):
    def script():
        raise error

    with pytest.raises(SystemExit) as end:
        run(script, [])
    assert end.value.code == code and capsys.readouterr().err == printed


GROUP = """
import atexit, sys
import torch.distributed as distributed
from sweet_rl.runs.cli import run

class TornDown:
    def __del__(self):
        print("torn down")

kept = TornDown()

def main(store: str):
    atexit.register(lambda: print("at exit, in a group:", distributed.is_initialized()))
    distributed.init_process_group("gloo", store=distributed.FileStore(store, 1), rank=0, world_size=1)
    print("worked")

run(main)
"""


def test_a_command_of_several_processes_that_worked_leaves_their_group_and_tears_nothing_down(tmp_path):
    """While the interpreter is torn down, gloo's threads abort the process now and then."""
    path = tmp_path / "train.py"
    path.write_text(GROUP)
    words = [sys.executable, path, "--store", tmp_path / "store"]
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert (done.returncode, done.stdout) == (0, "worked\nat exit, in a group: False\n"), done.stderr
