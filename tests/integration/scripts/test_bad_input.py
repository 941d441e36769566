"""Bad input: one clear message, exit code not 0, nothing overwritten. Every kind of it on two
scripts, of which one writes a file and one a folder; what a script reads, writes and loads on all."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.support.command_line import call, contents, read_rows, write_rows
from tests.support.script_calls import SCRIPTS, Script, named, place  # noqa: F401

# ruff: noqa: F811 (place is a fixture)
BAR = re.compile(r"\r[^\r\n]*\n?")  # a progress bar's line is no message
BY_NAME = {script.name: script for script in SCRIPTS}
FULLY = [BY_NAME["evaluate_code.py"], BY_NAME["train_dpo.py"]]
READING = [script for script in SCRIPTS if script.source]


@pytest.fixture
def out(tmp_path) -> Path:
    return tmp_path


@pytest.fixture(scope="module")
def finished(place, tmp_path_factory):
    """A function that copies what a script's good call has made to a folder; each is called once."""
    made: dict[str, Path] = {}

    def copy(script: Script, out: Path) -> None:
        if script.name not in made:
            made[script.name] = tmp_path_factory.mktemp("finished")
            result = call(script.name, **script.given(place, made[script.name]))
            assert result.code == 0, result.err
        shutil.copytree(made[script.name], out, dirs_exist_ok=True)

    return copy


def refused(script: Script, place: Path, out: Path, *said: str, words=(), **changes) -> str:
    """Calls the script, which must refuse with one message that says all of `said`, and write no record."""
    before = contents(place, out)
    result = call(script.name, *words, **script.given(place, out, **changes))
    assert result.code == 2, f"exit code {result.code}: {result.out}"
    message = BAR.sub("", result.err)
    assert message.startswith("error: ") and message.count("error: ") == 1, message
    assert "Traceback" not in message
    for text in said:
        assert str(text) in message, message
    after = contents(place, out)
    assert {path: after.get(path) for path in before} == before, "something on disk was changed"
    made = {path: after[path] for path in after.keys() - before.keys()}  # an output may have been opened
    records = [path for path, content in made.items() if content and not path.endswith("manifest.json")]
    assert not records, f"something was written: {records}"
    return message


def good_lines(script: Script, place: Path, out: Path) -> list[str]:
    good = script.given(place, out)[script.source].split(",")[0].rpartition("=")[2]
    return [json.dumps(row) for row in read_rows(Path(good))]


@pytest.mark.parametrize("script", SCRIPTS, ids=named)
def test_the_call_that_the_bad_ones_differ_from_works_and_is_not_repeated(script, place, out, finished):
    finished(script, out)
    before = contents(out)
    assert call(script.name, **script.given(place, out)).code == 0
    assert contents(out) == before


@pytest.mark.parametrize("text", [None, "\n\n  \n"], ids=["missing", "blank"])
@pytest.mark.parametrize("script", FULLY, ids=named)
def test_a_missing_or_empty_file_is_named(script, text, place, out):
    path = out / "input.jsonl"
    if text is not None:
        path.write_text(text)
    refused(script, place, out, path, **script.reading(path))


@pytest.mark.parametrize("kind", ["broken", "no object", "not UTF-8", "wrong type", "null", "NaN"])
@pytest.mark.parametrize("script", FULLY, ids=named)
def test_a_bad_line_is_named_with_its_number_and_its_field(script, kind, place, out):
    first, second, *rest = good_lines(script, place, out)
    row = json.loads(second)
    bad = {
        "broken": second[:-9],
        "no object": "[1, 2]",
        "wrong type": json.dumps({**row, script.needs: script.wrong}),
        "null": json.dumps({**row, script.needs: None}),
        "NaN": json.dumps({**row, "reward": float("nan")}),
    }
    path = out / "input.jsonl"
    line = b'{"a": "\xff"}' if kind == "not UTF-8" else bad[kind].encode()
    path.write_bytes(b"\n".join([first.encode(), line, *(text.encode() for text in rest)]) + b"\n")
    field = script.needs if kind in ("wrong type", "null") else ""
    message = refused(script, place, out, f"{path}, line 2", field, **script.reading(path))
    assert "line 1" not in message


@pytest.mark.parametrize("script", FULLY, ids=named)
def test_a_repeated_id_is_named_with_both_lines(script, place, out):
    rows = [{**json.loads(line), "id": "same"} for line in good_lines(script, place, out)]
    path = write_rows(out / "input.jsonl", rows)
    refused(script, place, out, f"{path}, line 2", "'same'", "line 1", **script.reading(path))


@pytest.mark.parametrize("model", ["missing", "torn_config", "no_template"])
@pytest.mark.parametrize(("script", "flag"), [(FULLY[0], "tokenizer"), (FULLY[1], "pretrain")], ids=named)
def test_a_model_that_cannot_be_had_is_named(script, flag, model, place, out):
    refused(script, place, out, place / model, **{flag: place / model})


WITH_WEIGHTS = [(script, flag) for script in SCRIPTS for flag in script.models if flag != "tokenizer"]


@pytest.mark.parametrize(("script", "flag"), WITH_WEIGHTS, ids=named)
def test_an_output_is_kept_when_the_model_that_was_to_replace_it_cannot_be_loaded(script, flag, place, out, finished):
    finished(script, out)
    model = place / "torn_weights"
    refused(script, place, out, model, words=("--overwrite",), **{flag: model})


@pytest.mark.parametrize("script", SCRIPTS, ids=named)
def test_an_output_that_somebody_else_made_is_kept(script, place, out):
    for flag in script.outputs:
        target = Path(script.given(place, out)[flag])
        if target.suffix:
            target.write_text("precious\n")
        else:
            target.mkdir()
            (target / "test.jsonl").write_text("precious\n")
            (target / "model.safetensors").write_text("precious\n")
        refused(script, place, out, target)
        shutil.rmtree(target) if target.is_dir() else target.unlink()


@pytest.mark.parametrize("script", [script for script in READING if script.other], ids=named)
def test_an_output_path_that_is_the_input_is_refused(script, place, out):
    words = ("--overwrite",)
    flag = script.outputs[0]
    if flag == "save_path":
        model = shutil.copytree(place / "model", out / "model")
        refused(script, place, out, model, words=words, pretrain=model, save_path=model)
    else:
        path = shutil.copy(script.given(place, out)[script.source], out / "input.jsonl")
        refused(script, place, out, path, words=words, **{script.source: path, flag: path})


@pytest.mark.parametrize("script", [*FULLY, BY_NAME["make_mini_tasks.py"]], ids=named)
def test_a_run_is_not_continued_with_other_settings(script, place, out, finished):
    """What stands in the manifests of the other scripts: test_seeds.py."""
    finished(script, out)
    for name, value in list(script.other.items())[:4]:
        refused(script, place, out, value, "--overwrite", **{name: value})


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("evaluate_code.py", {"k": 3}, ["--k is 3", "2 dialogues"]),
        ("evaluate_code.py", {"tokenizer": None}, ["--tokenizer"]),
        ("evaluate_code.py", {"sandbox": "maybe"}, ["maybe"]),
        ("evaluate_code.py", {"timeout": "nan"}, ["timeout"]),
        ("evaluate_code.py", {"preference_path": "{out}/made.jsonl"}, ["made.jsonl"]),
        ("simulate_interactions.py", {"num_tasks": 0}, ["--num_tasks is 0"]),
        ("simulate_interactions.py", {"temperature": -1}, ["temperature"]),
        ("simulate_interactions.py", {"agent_prompt_path": "nowhere.txt"}, ["nowhere.txt"]),
        ("simulate_interactions.py", {"input_path": "{place}/plain.jsonl"}, ["language model"]),
        ("simulate_interactions.py", {"task_type": "html5"}, ["task_type"]),
        ("sample_best_of_n.py", {"data_fraction": 1.5}, ["fraction"]),
        ("rank_best_of_n.py", {"reference": "other"}, ["--reference"]),
        ("rank_best_of_n.py", {"limit": 0}, ["ranked.jsonl", "--limit is 0"]),
        ("rank_best_of_n.py", {"input_path": "{place}/untold.jsonl"}, ["'task'", "--no_prompt"]),
        ("generate_random_pairs_from_ranks.py", {"input_path": "{place}/unranked.jsonl"}, ["rank_best_of_n.py"]),
        ("train_dpo.py", {"train_batch_size": 3, "micro_train_batch_size": 2}, ["multiple"]),
        ("train_dpo.py", {"max_len": 3}, ["pairs.jsonl", "--max_len"]),
        ("train_dpo.py", {"learning_rate": "-1"}, ["learning_rate"]),
        ("train_dpo.py", {"dataset": "{place}/strings.jsonl"}, ["strings.jsonl", "--response_template"]),
        ("train_sft.py", {"dataset": "{place}/trajectories.jsonl"}, ["trajectories.jsonl", "evaluate_code.py"]),
        ("compare_runs.py", {"runs": "a=x,a=y"}, ["--runs", "once"]),
        ("compare_runs.py", {"runs": "a={place}/trajectories.jsonl"}, ["evaluate_code.py"]),
        ("compare_runs.py", {"markdown_path": "{out}/made.json"}, ["made.json"]),
    ],
    ids=str,
)
def test_a_setting_that_cannot_work_is_named(name, changes, said, place, out):
    filled = {k: v.format(place=place, out=out) if isinstance(v, str) else v for k, v in changes.items()}
    refused(BY_NAME[name], place, out, *said, **filled)
