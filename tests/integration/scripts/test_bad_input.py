"""Bad input at every script: one clear message, exit code not 0, nothing overwritten."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.support.command_line import call, call_process, contents, read_rows, write_rows
from tests.support.script_calls import SCRIPTS, Script, named, place  # noqa: F401

# ruff: noqa: F811 (place is a fixture)
BAR = re.compile(r"\r[^\r\n]*\n?")  # a progress bar's line is no message
READING = [script for script in SCRIPTS if script.source]
CONTINUING = [script for script in SCRIPTS if script.other]
MODELS = [(script, flag) for script in SCRIPTS for flag in script.models]


@pytest.fixture
def out(tmp_path) -> Path:
    return tmp_path


def refused(script: Script, place: Path, out: Path, *said: str, run=call, words=(), **changes) -> str:
    """Calls the script, which must refuse with one message that says all of `said`, and leave every file as it was."""
    before = contents(place, out)
    result = run(script.name, *words, **script.given(place, out, **changes))
    assert result.code == 2, f"exit code {result.code}: {result.out}"
    message = BAR.sub("", result.err)
    assert message.startswith("error: ") and message.count("error: ") == 1, message
    assert "Traceback" not in message
    for text in said:
        assert str(text) in message, message
    after = contents(place, out)
    assert {path: after.get(path) for path in before} == before, "something on disk was changed"
    assert all(not after[path] or path.endswith(".manifest.json") for path in after.keys() - before.keys()), (
        f"something was written: {after.keys() - before.keys()}"
    )
    return message


@pytest.mark.parametrize("script", SCRIPTS, ids=named)
def test_the_call_that_the_bad_ones_differ_from_works(script, place, out):
    result = call(script.name, **script.given(place, out))
    assert result.code == 0, result.err


BROKEN = {
    "missing": None,
    "empty": "",
    "only blank lines": "\n\n  \n",
}


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("script", READING, ids=named)
def test_a_missing_or_empty_file_is_named(script, kind, place, out):
    path = out / "input.jsonl"
    if BROKEN[kind] is not None:
        path.write_text(BROKEN[kind])
    said = "does not exist" if kind == "missing" else "has no records"
    refused(script, place, out, path, said, **script.reading(path))


@pytest.mark.parametrize("kind", ["broken", "no object", "not UTF-8", "missing field", "wrong type", "null", "NaN"])
@pytest.mark.parametrize("script", READING, ids=named)
def test_a_bad_line_is_named_with_its_number_and_its_field(script, kind, place, out):
    good = script.given(place, out)[script.source].split(",")[0].rpartition("=")[2]
    first, *rest = (json.dumps(row) for row in read_rows(Path(good)))
    row = json.loads(rest[0])
    bad = {
        "broken": rest[0][:-9],
        "no object": "[1, 2]",
        "missing field": json.dumps({name: value for name, value in row.items() if name != script.needs}),
        "wrong type": json.dumps({**row, script.needs: script.wrong}),
        "null": json.dumps({**row, script.needs: None}),
        "NaN": json.dumps({**row, "reward": float("nan")}),
    }
    path = out / "input.jsonl"
    line = b'{"a": "\xff"}' if kind == "not UTF-8" else bad[kind].encode()
    path.write_bytes(b"\n".join([first.encode(), line, *(text.encode() for text in rest[1:])]) + b"\n")
    fields = {"missing field": repr(script.needs), "wrong type": script.needs, "null": repr(script.needs)}
    message = refused(script, place, out, f"{path}, line 2", fields.get(kind, ""), **script.reading(path))
    assert "line 1" not in message


@pytest.mark.parametrize("script", READING, ids=named)
def test_a_repeated_id_is_named_with_both_lines(script, place, out):
    good = script.given(place, out)[script.source].split(",")[0].rpartition("=")[2]
    path = write_rows(out / "input.jsonl", [{**row, "id": "same"} for row in read_rows(Path(good))])
    refused(script, place, out, f"{path}, line 2", "'same'", "line 1", **script.reading(path))


@pytest.mark.parametrize("script", READING, ids=named)
def test_a_folder_given_as_a_file_is_named(script, place, out):
    refused(script, place, out, f"{place} is a directory", **script.reading(place))


@pytest.mark.parametrize("model", ["missing", "nothing", "torn_config"])
@pytest.mark.parametrize(("script", "flag"), MODELS, ids=named)
def test_a_model_that_cannot_be_had_is_named(script, flag, model, place, out):
    refused(script, place, out, place / model, **{flag: place / model})


# A reference model only scores: its chat template is not used.
WITH_TEMPLATE = [(script, flag) for script, flag in MODELS if flag not in ("ref_pretrain", "reference_model_id")]


@pytest.mark.parametrize(("script", "flag"), WITH_TEMPLATE, ids=named)
def test_a_model_without_a_chat_template_is_named(script, flag, place, out):
    model = place / "no_template"
    refused(script, place, out, model, "no chat template", **{flag: model})


@pytest.mark.parametrize("model", ["torn_weights", "no_weights", "missing"])
@pytest.mark.parametrize(("script", "flag"), [m for m in MODELS if m[1] != "tokenizer"], ids=named)
def test_an_output_is_kept_when_the_model_that_was_to_replace_it_cannot_be_loaded(script, flag, model, place, out):
    assert call(script.name, **script.given(place, out)).code == 0
    refused(script, place, out, place / model, words=("--overwrite",), **{flag: place / model})


@pytest.mark.parametrize("script", SCRIPTS, ids=named)
def test_an_output_that_somebody_else_made_is_kept(script, place, out):
    for number, flag in enumerate(script.outputs):
        target = Path(script.given(place, out)[flag])
        if target.suffix:
            target.write_text("precious\n")
        else:
            target.mkdir()
            (target / "test.jsonl").write_text("precious\n")
            (target / "model.safetensors").write_text("precious\n")
        refused(script, place, out, target)
        shutil.rmtree(target) if target.is_dir() else target.unlink()
        assert number < 2


@pytest.mark.parametrize("words", [(), ("--overwrite",)], ids=["", "overwrite"])
@pytest.mark.parametrize("script", [script for script in CONTINUING if script.source], ids=named)
def test_an_output_path_that_is_the_input_is_refused(script, words, place, out):
    path = shutil.copy(script.given(place, out)[script.source], out / "input.jsonl")
    flag = script.outputs[0]
    if flag == "save_path" and "pretrain" in script.flags:
        model = shutil.copytree(place / "model", out / "model")
        assert call(script.name, **script.given(place, out)).code == 0
        refused(script, place, out, out / "made", words=words, **{"pretrain": out / "made"})
        refused(script, place, out, model, words=words, pretrain=model, save_path=model)
    else:
        refused(script, place, out, path, words=words, **{script.source: path, flag: path})


@pytest.mark.parametrize("script", SCRIPTS, ids=named)
def test_an_output_path_that_cannot_be_written_is_named(script, place, out):
    for flag in script.outputs:
        (out / "file").write_text("a file, not a folder")
        refused(script, place, out, out / "file", **{flag: out / "file" / "below"})
        if script.flags[flag].rpartition("/")[2].count("."):
            (out / "folder").mkdir(exist_ok=True)
            refused(script, place, out, out / "folder", **{flag: out / "folder"})


@pytest.mark.parametrize("script", CONTINUING, ids=named)
def test_a_run_is_not_continued_with_other_settings(script, place, out):
    assert call(script.name, **script.given(place, out)).code == 0
    (name, value), *others = script.other.items()
    refused(script, place, out, name, value, "with other settings", "--overwrite", **{name: value})
    for name, value in others:  # their manifest may have another name for the flag, such as hint for no_prompt
        refused(script, place, out, "with other settings", "--overwrite", **{name: value})
    again = call(script.name, **script.given(place, out))
    assert again.code == 0 and "already complete" in again.out


@pytest.mark.parametrize("script", SCRIPTS, ids=named)
def test_an_unknown_flag_is_named_with_the_near_one(script, place, out):
    refused(script, place, out, f"--{script.number}s", repr(script.number), **{f"{script.number}s": 1})


@pytest.mark.parametrize("script", SCRIPTS, ids=named)
def test_an_unknown_setting_of_a_config_file_is_named_with_the_near_one(script, place, out):
    path = out / "settings.yaml"
    path.write_text(f"{script.number}s: 1\n")
    refused(script, place, out, path, f"'{script.number}s'", repr(script.number), config=path)


@pytest.mark.parametrize("script", SCRIPTS, ids=named)
def test_a_flag_of_the_wrong_type_is_named(script, place, out):
    refused(script, place, out, f"--{script.number}", "'many'", "expected", **{script.number: "many"})


@pytest.mark.parametrize("script", SCRIPTS, ids=named)
def test_a_setting_of_the_wrong_type_in_a_config_file_is_named(script, place, out):
    path = out / "settings.yaml"
    path.write_text(f"{script.number}: many\n")
    flags = {name: value for name, value in script.given(place, out).items() if name != script.number}
    result = call(script.name, config=path, **flags)
    assert result.code == 2 and f"'{script.number}' in {path}" in result.err and "'many'" in result.err
    assert list(out.iterdir()) == [path]


@pytest.mark.parametrize("script", SCRIPTS, ids=named)
def test_a_flag_given_by_hand_wins_over_the_config_file(script, place, out):
    path = out / "settings.yaml"
    flags = script.given(place, out)
    given = {**{name: out / "nowhere" for name in flags}, **flags}
    source = script.source or script.number
    path.write_text(f"{source}: {json.dumps(str(out / 'nowhere') if script.source else 0)}\n")
    assert given[source] == flags[source]
    assert call(script.name, config=path, **flags).code == 0
    left = {name: value for name, value in flags.items() if name != source}
    assert call(script.name, config=path, **left).code != 0


@pytest.mark.parametrize("script", SCRIPTS, ids=named)
@pytest.mark.parametrize("words", [("stray",), ("-z", "3"), ("--",), ("-",)], ids=" ".join)
def test_a_word_that_is_no_flag_is_named(script, words, place, out):
    if script.name == "simulate_interactions.py" and words == ("stray",):
        pytest.skip("a word by position is the name of a host there")
    refused(script, place, out, words[0], words=words)


@pytest.mark.parametrize("script", [script for script in SCRIPTS if script.name != "make_mini_tasks.py"], ids=named)
def test_a_call_without_its_input_says_what_is_missing(script, place, out):
    flags = script.given(place, out)
    del flags[script.source]
    result = call(script.name, **flags)
    assert result.code == 2 and f"missing: --{script.source}" in result.err
    assert not list(out.iterdir())


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("evaluate_code.py", {"k": 3}, ["--k is 3", "2 dialogues", "does not divide"]),
        ("evaluate_code.py", {"tokenizer": None}, ["--tokenizer", "--response_template"]),
        ("evaluate_code.py", {"k": 0}, ["--k is 0", "at least 1"]),
        ("evaluate_code.py", {"num_tasks": 0}, ["--num_tasks is 0"]),
        ("evaluate_code.py", {"sandbox": "maybe"}, ["maybe", "auto"]),
        ("evaluate_code.py", {"timeout": -1}, ["timeout", "-1"]),
        ("evaluate_code.py", {"timeout": "nan"}, ["timeout", "nan"]),
        ("evaluate_code.py", {"memory_mb": 0}, ["memory_mb", "0"]),
        ("evaluate_code.py", {"workers": 0}, ["workers", "0"]),
        ("evaluate_code.py", {"preference_path": "{out}/made.jsonl"}, ["made.jsonl", "another output"]),
        ("evaluate_code.py", {"output_path": "{place}/trajectories.jsonl"}, ["trajectories.jsonl", "the input"]),
        ("simulate_interactions.py", {"best_of_n": 0}, ["--best_of_n is 0"]),
        ("simulate_interactions.py", {"num_tasks": 0}, ["--num_tasks is 0"]),
        ("simulate_interactions.py", {"temperature": "nan"}, ["temperature", "nan"]),
        ("simulate_interactions.py", {"max_tokens": 0}, ["max_tokens", "0"]),
        ("simulate_interactions.py", {"agent_prompt_path": "{place}/tasks.jsonl"}, ["tasks.jsonl"]),
        ("simulate_interactions.py", {"input_path": "{place}/plain.jsonl"}, ["mini", "--env_model"]),
        ("sample_best_of_n.py", {"best_of_n": 0}, ["--best_of_n is 0"]),
        ("sample_best_of_n.py", {"data_fraction": 0}, ["fraction", "0"]),
        ("sample_best_of_n.py", {"data_fraction": 1.5}, ["fraction", "1.5"]),
        ("rank_best_of_n.py", {"reference": "other"}, ["--reference is 'other'", "'seed_without_c' or 'sampled'"]),
        ("rank_best_of_n.py", {"normalize": "word"}, ["--normalize is 'word'"]),
        ("rank_best_of_n.py", {"token_budget": 0}, ["token_budget", "0"]),
        ("rank_best_of_n.py", {"limit": 0}, ["ranked.jsonl", "0 records"]),
        ("rank_best_of_n.py", {"input_path": "{place}/untold.jsonl"}, ["no 'task'", "--no_prompt"]),
        ("generate_random_pairs_from_ranks.py", {"num_pairs": 0}, ["--num_pairs is 0"]),
        ("generate_random_pairs_from_ranks.py", {"input_path": "{place}/unranked.jsonl"}, ["rank_best_of_n.py"]),
        ("train_dpo.py", {"train_batch_size": 3, "micro_train_batch_size": 2}, ["multiple", "3", "2"]),
        ("train_dpo.py", {"train_batch_size": 0}, ["train_batch_size", "0"]),
        ("train_dpo.py", {"micro_train_batch_size": 0}, ["micro_train_batch_size", "0"]),
        ("train_dpo.py", {"max_len": 1}, ["--max_len is 1"]),
        ("train_dpo.py", {"max_len": 3}, ["pairs.jsonl", "--max_len"]),
        ("train_dpo.py", {"max_epochs": 0}, ["max_epochs", "0"]),
        ("train_dpo.py", {"logging_steps": 0}, ["logging_steps", "0"]),
        ("train_dpo.py", {"save_steps": 0}, ["save_steps", "0"]),
        ("train_dpo.py", {"beta": "nan"}, ["beta", "nan"]),
        ("train_dpo.py", {"learning_rate": "-1"}, ["learning_rate", "-1"]),
        ("train_dpo.py", {"dataset": "{place}/strings.jsonl"}, ["strings.jsonl", "--response_template"]),
        ("train_dpo.py", {"dataset": "{place}/strings.jsonl", "response_template": "<|odd|>"}, ["<|odd|>"]),
        ("train_sft.py", {"dataset": "{place}/trajectories.jsonl"}, ["trajectories.jsonl", "evaluate_code.py"]),
        ("train_sft.py", {"min_reward": 2}, ["graded.jsonl", "--min_reward 2"]),
        ("make_mini_tasks.py", {"num_train": 0}, ["--num_train is 0"]),
        ("compare_runs.py", {"runs": "=graded.jsonl"}, ["--runs", "name=file"]),
        ("compare_runs.py", {"runs": "a=x,a=y"}, ["--runs", "once"]),
        ("compare_runs.py", {"baselines": "c"}, ["'c'", "a, b"]),
        ("compare_runs.py", {"runs": "a={place}/trajectories.jsonl"}, ["evaluate_code.py"]),
        ("compare_runs.py", {"markdown_path": "{out}/made.json"}, ["made.json"]),
        ("measure_mini_credit.py", {"runs": "ranked.jsonl"}, ["--runs", "name=file"]),
        ("measure_mini_credit.py", {"runs": "a={place}/ranked.jsonl,ranked.jsonl"}, ["--runs", "name=file"]),
        ("measure_mini_credit.py", {"runs": "a={place}/ranked.jsonl,a={place}/ranked.jsonl"}, ["--runs", "once"]),
        ("measure_mini_credit.py", {"runs": "a={place}/unranked.jsonl"}, ["rank_best_of_n.py"]),
        ("measure_mini_credit.py", {"runs": ""}, ["--runs"]),
        ("lab.critics.study_credit", {"purification": "much"}, ["--purification", "0.5,1"]),
        ("lab.critics.study_credit", {"clip": "0"}, ["clip is 0.0"]),
    ],
    ids=str,
)
def test_a_setting_that_cannot_work_is_named(name, changes, said, place, out):
    script = next(script for script in SCRIPTS if script.name == name)
    filled = {k: v.format(place=place, out=out) if isinstance(v, str) else v for k, v in changes.items()}
    refused(script, place, out, *said, **filled)


@pytest.mark.parametrize("script", SCRIPTS[:2], ids=named)
def test_a_process_of_its_own_refuses_as_well(script, place, out):
    near = script.number + "s"
    refused(script, place, out, f"--{near}", repr(script.number), run=call_process, **{near: 1})
