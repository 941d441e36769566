"""What holds for every script: a finished call is not repeated, bad input is one message that changes no file, and the
manifest has each setting that changes the records."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sweet_rl.models.weights import model_path
from sweet_rl.runs.cli import flags_of
from tests.support.command_line import ROOT, call, contents, process, read_rows, write_rows
from tests.support.mini_run import STEPS, Step

BAR = re.compile(r"\r[^\r\n]*\n?")  # a progress bar's line is no message
SCRIPTS = {step.script: step for step in reversed(STEPS.values())}  # the first step of each script
PLAY_CANDIDATES = Step(
    "play_best_of_n.py",
    {"agent_model": "mini", "env_model": "mini", "critic": "mini", "critic_reference": "sampled",
     "input_path": "{run}/tasks/test.jsonl", "output_path": "{out}/chosen.jsonl"},
)  # fmt: skip
SEEDED = [PLAY_CANDIDATES, *(step for step in SCRIPTS.values() if "seed" in step.other)]
BOOTSTRAP_ONLY = {"evaluate_code.py", "evaluate_html.py", "compare_runs.py"}
OTHERS = {"colbench.py", "check_credit.py", "chat.py"}  # made of steps that are in SEEDED; a dialogue with a person
WITHOUT_TORCH = """
import runpy, sys
sys.argv = sys.argv[1:]
sys.modules["torch"] = sys.modules["transformers"] = None  # an import of them fails
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def named(value) -> str:
    return value.script.removesuffix(".py") if isinstance(value, Step) else str(value)


def each(steps):
    return pytest.mark.parametrize("step", steps, ids=named)


def refused(step: Step, run: Path, out: Path, *said: object, words=(), **changes: object) -> None:
    """Call the script, which must refuse with one message that says all of `said`, and write no record."""
    before = contents(out)
    result = call(step.script, *words, **step.given(run, out, **changes))
    message = BAR.sub("", result.err)
    assert result.code == 2 and message.startswith("error: ") and "Traceback" not in message, message
    for text in said:
        assert str(text) in message, message
    after = contents(out)
    assert {path: after.get(path) for path in before} == before, "something on disk was changed"
    made = {path: after[path] for path in after.keys() - before.keys()}  # an output may have been opened
    assert not [path for path, content in made.items() if content and not path.endswith("manifest.json")]


@each(step for step in STEPS.values() if not step.script.startswith("make_mini"))
def test_a_finished_call_is_not_repeated(step, mini_run):
    before = contents(mini_run)
    assert call(step.script, **step.given(mini_run, mini_run)).code == 0
    assert contents(mini_run) == before


@pytest.mark.parametrize("name", ["critic", "imitation", "value", "candidates"])
def test_a_finished_step_answers_before_torch_is_loaded(name, mini_run):
    words, environment = process(STEPS[name].script, **STEPS[name].given(mini_run, mini_run))
    command = [sys.executable, "-c", WITHOUT_TORCH, *words[1:]]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.returncode == 0 and "already complete" in done.stdout, done.stderr


@pytest.mark.parametrize("kind", ["missing", "broken", "wrong type", "null"])
@each(step for step in SCRIPTS.values() if step.needs)
def test_a_bad_line_is_named_with_its_file_its_number_and_its_field(step, kind, mini_run, tmp_path):
    path = tmp_path / "input.jsonl"
    good = Path(str(step.given(mini_run, tmp_path)[step.source]).rpartition("=")[2])
    first, second = good.read_text().splitlines()[:2]
    bad = {
        "broken": second[:-9],
        "wrong type": json.dumps({**json.loads(second), step.needs: step.wrong}),
        "null": json.dumps({**json.loads(second), step.needs: None}),
    }
    if kind != "missing":
        path.write_text(f"{first}\n{bad[kind]}\n")
    said = {"missing": [path], "broken": [f"{path}, line 2"]}.get(kind, [f"{path}, line 2", step.needs])
    source = f"a={path}" if step.source == "runs" else path
    refused(step, mini_run, tmp_path, *said, **{step.source: source})


@each(step for step in SCRIPTS.values() if step.models)
def test_an_output_is_kept_when_the_model_that_was_to_replace_it_cannot_be_loaded(step, mini_run, tmp_path):
    model = shutil.copytree(model_path("mini"), tmp_path / "torn")
    (model / "model.safetensors").write_bytes((model / "model.safetensors").read_bytes()[:-1000])
    output = step.given(mini_run, tmp_path)[step.outputs[0]]
    made = Path(step.given(mini_run, mini_run)[step.outputs[0]])
    if made.is_dir():
        shutil.copytree(made, output)
    else:
        shutil.copy(made, output)
        shutil.copy(f"{made}.manifest.json", tmp_path)
    for flag in step.models:
        refused(step, mini_run, tmp_path, model, words=("--overwrite",), **{flag: model})


@each(SCRIPTS.values())
def test_an_output_that_somebody_else_made_is_kept(step, mini_run, tmp_path):
    for flag in step.outputs:
        target = Path(step.given(mini_run, tmp_path)[flag])
        if target.suffix:
            target.write_text("precious\n")
        else:
            target.mkdir()
            for name in ("test.jsonl", "model.safetensors"):
                (target / name).write_text("precious\n")
        refused(step, mini_run, tmp_path, target)
        shutil.rmtree(target) if target.is_dir() else target.unlink()


@each(step for step in SCRIPTS.values() if step.source and step.other)
def test_an_output_path_that_is_the_input_is_refused(step, mini_run, tmp_path):
    flag = step.outputs[0]
    if flag == "save_path":
        path, source = shutil.copytree(model_path("mini"), tmp_path / "model"), "pretrain"
    else:
        source = step.source
        path = shutil.copy(step.given(mini_run, tmp_path)[source], tmp_path / "input.jsonl")
    refused(step, mini_run, tmp_path, path, words=("--overwrite",), **{source: path, flag: path})


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("graded", {"k": 4}, ["--k is 4", "3 dialogues"]),
        ("dialogues", {"num_tasks": 0}, ["--num_tasks is 0"]),
        ("dialogues", {"temperature": -1}, ["temperature"]),
        ("dialogues", {"task_type": "html5"}, ["task_type"]),
        ("candidates", {"data_fraction": 1.5}, ["fraction"]),
        ("ranked", {"reference": "other"}, ["--reference"]),
        ("pairs", {"input_path": "{run}/candidates.jsonl"}, ["rank_best_of_n.py"]),
        ("critic", {"train_batch_size": 3, "micro_train_batch_size": 2}, ["multiple"]),
        ("critic", {"max_len": 3}, ["critic_pairs.jsonl", "--max_len"]),
        ("imitation", {"dataset": "{run}/dialogues.jsonl"}, ["dialogues.jsonl", "evaluate_code.py"]),
        ("table", {"runs": "a=x,a=y"}, ["--runs", "once"]),
        ("table", {"runs": "a={run}/dialogues.jsonl"}, ["evaluate_code.py"]),
    ],
    ids=str,
)
def test_a_setting_that_cannot_work_is_named(name, changes, said, mini_run, tmp_path):
    filled = {flag: value.format(run=mini_run) if isinstance(value, str) else value for flag, value in changes.items()}
    refused(STEPS[name], mini_run, tmp_path, *said, **filled)


def test_pairs_that_are_strings_need_the_markup_of_the_agent(mini_run, tmp_path):
    path = write_rows(tmp_path / "strings.jsonl", [{"chosen": "Q: a A: b", "rejected": "Q: a A: c"}])
    refused(STEPS["critic"], mini_run, tmp_path, path, "--response_template", dataset=path)


class Opened(BaseException):
    """Raised with the settings that a script opens its output with."""


@pytest.fixture
def settings_of(monkeypatch, mini_run, tmp_path):
    def opened(settings, inputs):
        raise Opened(settings)

    monkeypatch.setattr("sweet_rl.runs.run.new_manifest", opened)

    def settings_of(step: Step, **flags) -> dict:
        with pytest.raises(Opened) as stopped:
            result = call(step.script, **step.given(mini_run, tmp_path, **flags))
            raise AssertionError(f"no output was opened: {result}")
        return stopped.value.args[0]

    return settings_of


@each(step for step in SCRIPTS.values() if step.other and len(step.outputs) == 1 and step.outputs != ("output_dir",))
def test_a_setting_that_changes_the_records_is_in_the_manifest(step, settings_of):
    default = settings_of(step)
    left_out = [name for name, value in step.other.items() if settings_of(step, **{name: value}) == default]
    assert left_out == []


@pytest.mark.parametrize("name", ["tasks", "graded"])
def test_a_run_of_several_outputs_is_not_continued_with_other_settings(name, mini_run, tmp_path):
    step = STEPS[name]
    out = shutil.copytree(mini_run, tmp_path / "run", ignore=shutil.ignore_patterns("critic", "policy", "value"))
    for flag, value in step.other.items():
        refused(step, mini_run, out, value, "--overwrite", **{flag: value})


@each(SEEDED)
def test_another_seed_is_another_run(step, settings_of):
    one, other = settings_of(step, seed=3), settings_of(step, seed=4)
    assert {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)} == {"seed"}
    assert (one["seed"], other["seed"]) == (3, 4)


def test_every_script_with_a_seed_is_held_to_this():
    seeded = {
        path.name for path in (ROOT / "scripts").glob("*.py") if "seed" in flags_of(runpy.run_path(str(path))["main"])
    }
    assert seeded == {step.script for step in SEEDED} | BOOTSTRAP_ONLY | OTHERS


def test_the_run_holds_what_the_other_tests_need(mini_run):
    rewards = {row["reward"] for row in read_rows(mini_run / "graded.jsonl")}
    assert 1.0 in rewards and min(rewards) < 1 and read_rows(mini_run / "critic_pairs.jsonl")
