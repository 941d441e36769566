"""Steps planned from rules: what a command reads is planned before it, once, and what is done is known as done."""

import dataclasses
import os
from pathlib import Path

import pytest

from sweet_rl.errors import UserError
from sweet_rl.pipeline.plan import Plan, Step
from sweet_rl.runs.run import open_run
from tests.support.command_line import read_rows, write_rows

CONFIG = {
    "rules": {
        "raw.jsonl": [
            "collect", "dialogues", "play {flags} --model {model} --output_path {dir}/raw.jsonl --seed {seed}",
        ],
        "(rewarded|pairs).jsonl": [
            "grade", "grading", "grade --input_path {top}/raw.jsonl --output_path {dir}/rewarded.jsonl "
            "--preference_path {dir}/pairs.jsonl",
        ],
        r"sweet(\w*)": [
            "train{title}", "train", "train --dataset {dir}/pairs.jsonl --save_path {dir}/sweet{1} {loss{1}}",
        ],
    },
    "values": {"flags": "--server {server} --template {template}", "model": "{agent}", "loss": "", "loss_x": "--l 1"},
    "sizes": {"big": {"agent": "large"}, "small": {"agent": "tiny"}},
    "folders": {r"round(\d+)": {"model": "{before}/sweet"}, r"round(\d+)_(\w+)": {"model": "{before}/sweet_{2}"}},
    "outputs": {"draw": [".png"]},
}  # fmt: skip


def plan(options=(), sizes=("big", "small"), **shards):
    return Plan(CONFIG, {"out": "/out", "server": "", "template": "<a b>", **dict(options)}, sizes, shards)


def test_the_steps_of_a_table_are_planned_once_each_before_it():
    made = plan()
    runs = "x=/out/seed1/sweet,y=/out/seed1/sweet_x"
    made.add("table", "other", "/out", "compare", "--runs", runs, "--output_path", "/out/t")
    assert [step.name for step in made.steps.values()] == ["collect", "grade", "train", "train (x)", "table"]
    assert made.steps["/out/t"].sources == ("/out/seed1/sweet", "/out/seed1/sweet_x")
    assert made.makers["/out/seed1/pairs.jsonl"].output == "/out/seed1/rewarded.jsonl"
    assert made.steps["/out/seed1/sweet_x"].words[-2:] == ("--l", "1")


def test_values_are_words_options_are_one_word_and_a_flag_without_a_value_is_left_out():
    made = plan()
    made.make("/out/seed1/raw.jsonl")
    words = made.steps["/out/seed1/raw.jsonl"].words
    assert words == (
        *("play", "--template", "<a b>", "--model", "tiny", "--output_path", "/out/seed1/raw.jsonl", "--seed", "1"),
    )


def test_a_round_starts_from_the_policy_of_the_round_before():
    made = plan()
    made.make("/out/seed0/round3/raw.jsonl")
    assert "/out/seed0/round2/sweet" in made.steps["/out/seed0/round3/raw.jsonl"].words
    assert "/out/seed0/sweet" not in made.steps  # round 2 learns from the seed's dialogues in this configuration


def test_the_rounds_of_a_method_start_from_its_own_policies():
    made = plan()
    for number, before in ((3, "/out/seed0/round2_x/sweet_x"), (2, "/out/seed0/sweet_x")):
        made.make(f"/out/seed0/round{number}_x/raw.jsonl")
        assert before in made.steps[f"/out/seed0/round{number}_x/raw.jsonl"].words


def test_shards_are_steps_of_their_own_and_one_more_joins_them(tmp_path):
    made = plan({"out": str(tmp_path)}, dialogues=2)
    made.make(f"{tmp_path}/seed0/raw.jsonl")
    names = [f"{tmp_path}/seed0/raw{part}.jsonl" for part in (".1-of-2", ".2-of-2", "")]
    assert list(made.steps) == names
    assert [step.words[-2:] for step in made.steps.values()][:2] == [("--shard", "1/2"), ("--shard", "2/2")]
    assert made.steps[names[2]].sources == tuple(names[:2])


def test_an_output_keeps_the_number_of_parts_that_it_was_begun_with(tmp_path):
    (tmp_path / "seed0").mkdir()
    (tmp_path / "seed0" / "raw.2-of-3.jsonl").touch()
    made = plan({"out": str(tmp_path)}, dialogues=8)
    made.make(f"{tmp_path}/seed0/raw.jsonl")
    assert len(made.steps) == 4
    (tmp_path / "seed0" / "raw.2-of-3.jsonl").rename(tmp_path / "seed0" / "raw.jsonl")
    whole = plan({"out": str(tmp_path)}, dialogues=8)
    whole.make(f"{tmp_path}/seed0/raw.jsonl")
    assert len(whole.steps) == 1


def test_a_model_is_not_taken_for_one_that_was_begun_in_parts_because_its_dialogues_were(tmp_path):
    (tmp_path / "seed0").mkdir()
    (tmp_path / "seed0" / "sweet.test.1-of-2.jsonl").touch()
    made = plan({"out": str(tmp_path)})
    made.make(f"{tmp_path}/seed0/sweet")
    assert [step.kind for step in made.steps.values()] == ["dialogues", "grading", "train"]


def test_a_folder_whose_name_cannot_stand_in_a_list_is_refused():
    with pytest.raises(UserError, match="--output /a,b"):
        plan({"out": "/a,b"})


@pytest.fixture
def step(tmp_path):
    """A step that is done: b.jsonl, made from a.jsonl."""
    source, output, times = (tmp_path / name for name in ("a.jsonl", "b.jsonl", "times.jsonl"))
    source.write_text("1")
    with open_run(output, {}, [source]) as run:
        run.finish({})
    words = ("grade", "--input_path", str(source), "--output_path", str(output))
    cost = dict.fromkeys(("seconds", "user_seconds", "system_seconds", "gpus"), 1)
    row = {"step": "grade", "output": str(output), "status": 0, "command": " ".join(words), **cost}
    write_rows(times, [row])
    return Step("grade", "grading", words, (str(output),), (str(source),), str(times))


def test_a_step_is_done_if_this_command_made_its_outputs_from_these_inputs(step):
    assert step.finished()
    assert not Step("grade", "grading", (*step.words, "--k", "4"), step.outputs, step.sources, step.times).finished()


def test_a_step_is_not_done_if_an_input_has_changed_or_it_was_not_finished(step, tmp_path):
    manifest = tmp_path / "b.jsonl.manifest.json"
    manifest.write_text(manifest.read_text().replace("finished", "running"))
    assert not step.finished()
    manifest.write_text(manifest.read_text().replace('"running"', '"finished"'))
    assert step.finished()
    (tmp_path / "a.jsonl").write_text("2")
    assert not step.finished()
    (tmp_path / "a.jsonl").unlink()
    assert not step.finished()


def test_a_table_is_done_if_it_is_newer_than_what_it_was_made_from(step, tmp_path):
    (tmp_path / "b.jsonl.manifest.json").unlink()
    for path, now, done in ((tmp_path / "b.jsonl", 10, False), (tmp_path / "a.jsonl", 5, True)):
        os.utime(path, (now, now))
        assert step.finished() is done


class Tuned(Plan):
    """Three folders that share what they have in common; settings by folder."""

    settings = {
        "try1": {"critic": {"rate": 1}, "sweet": {"beta": 1}},
        "try2": {"critic": {"rate": 1}, "sweet": {"beta": 2}},
        "try3": {"critic": {"rate": 2}, "sweet": {"beta": 2}},
    }

    def settings_of(self, folder, name, values):
        return self.settings.get(folder, {}).get(name, {})


@pytest.fixture
def tuned():
    rules = {
        "pairs.jsonl": ["pair", "grading", "pair --output_path {dir}/pairs.jsonl --best_path {dir}/best.jsonl"],
        "best.jsonl": ["pair", "grading", "pair --output_path {dir}/pairs.jsonl --best_path {dir}/best.jsonl"],
        "critic": ["critic", "train", "fit --config c.yaml --data {dir}/pairs.jsonl --rate 9 --save_path {dir}/critic"],
        "sweet": ["sweet", "train", "sweet --critic {dir}/critic --data {dir}/best.jsonl --save_path {dir}/sweet"],
    }  # fmt: skip
    config = {"rules": rules, "values": {}, "sizes": {}, "folders": {r"try\d": {"share": "once"}}, "outputs": {}}
    return Tuned(config, {"out": "/out"}, [], {})


def test_settings_come_after_the_configuration_and_before_the_flags_that_the_step_is_about(tuned):
    tuned.make("/out/seed0/try1/sweet")
    assert tuned.steps["/out/seed0/try1/critic"].words[1:5] == ("--config", "c.yaml", "--rate", "1")
    assert tuned.steps["/out/seed0/try1/critic"].words[7:9] == ("--rate", "9")
    assert tuned.steps["/out/seed0/try1/sweet"].words[-2:] == ("--beta", "1")  # it has no configuration


def test_folders_share_what_they_make_from_the_same_files_with_the_same_settings(tuned):
    for number in (1, 2, 3):
        tuned.make(f"/out/seed0/try{number}/sweet")
    made = [path.removeprefix("/out/seed0/") for path in tuned.steps]
    assert made == ["try1/pairs.jsonl", "try1/critic", "try1/sweet", "try2/sweet", "try3/critic", "try3/sweet"]
    words = tuned.steps["/out/seed0/try2/sweet"].words
    assert words[1:5] == ("--critic", "/out/seed0/try1/critic", "--data", "/out/seed0/try1/best.jsonl")
    assert tuned.steps["/out/seed0/try3/sweet"].sources == ("/out/seed0/try3/critic", "/out/seed0/try1/best.jsonl")
    assert tuned.same["/out/seed0/try3/best.jsonl"] == "/out/seed0/try1/best.jsonl"


def test_other_seeds_and_folders_without_the_value_share_nothing(tuned):
    made = [f"/out/{folder}/pairs.jsonl" for folder in ("seed0/try1", "seed0", "seed1/try1", "seed1")]
    for path in made:
        tuned.make(path)
    assert list(tuned.steps) == made and not tuned.same


def test_of_two_commands_that_made_an_output_the_last_one_counts(step):
    other = dataclasses.replace(step, words=(*step.words, "--k", "4"))
    (row,) = read_rows(Path(step.times))
    write_rows(Path(step.times), [row, row | {"command": " ".join(other.words)}])
    assert other.finished() and not step.finished()
