"""The door for critics: settings are checked, and a user's file ranks as a built-in critic does."""

import asyncio
import json

import pytest

from sweet_rl.method.best_of_n import best_of_n
from sweet_rl.method.critics import CheckedCritic, ChosenCritic, CriticFlags
from sweet_rl.method.ranking import rank_file
from sweet_rl.method.sweet_critic import seed_of
from sweet_rl.method.turn_credit import of_finished_dialogues
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import DIRECTORY_MANIFEST, hash_input, read_manifest
from sweet_rl.runs.records import TurnCandidates, read_records
from tests.support.command_line import write_rows

SHORT = """
from dataclasses import dataclass

from sweet_rl.method.critics import CriticType
from sweet_rl.runs.errors import UserError


@dataclass(frozen=True)
class Settings:
    words: int = 8
    weight: float | None = None

    def __post_init__(self):
        if self.words < 1:
            raise UserError("words must be at least 1.")


class Short:
    def __init__(self, settings):
        self.words = settings.words

    def scores(self, records):
        return [[-abs(len(text.split()) - self.words) for text in record.additional_outputs] for record in records]


CRITIC = CriticType(Settings, Short)
"""


@pytest.fixture
def short(tmp_path):
    (tmp_path / "short.py").write_text(SHORT)
    return str(tmp_path / "short.py")


def candidates(tmp_path):
    rows = [TurnCandidates("o", "", ["a b c", "a", "a b"], id=str(number)) for number in range(3)]
    return str(write_rows(tmp_path / "candidates.jsonl", rows))


@pytest.mark.parametrize("flags, named", [
    ({"critic_type": "oracle"}, "'oracle'.*log_ratio, pmi, value, judge"),
    ({}, "missing model_id"),
    ({"critic_type": "nowhere.py"}, "nowhere.py"),
    ({"model_id": "m", "critic_settings": {"words": 3}}, "log_ratio: unknown setting 'words'"),
    ({"model_id": "m", "critic_settings": {"normalize": "sum"}}, "normalize.*'sum'"),
    ({"model_id": "m", "reference": "sampled", "reference_model_id": "n"}, "--reference_model_id"),
    ({"model_id": "m", "token_budget": 0}, "--token_budget"),
    ({"critic_type": "pmi", "model_id": "m", "no_prompt": True}, "pmi: unknown setting 'no_prompt'"),
    ({"critic_type": "value", "model_id": "m", "hostname": "h"}, "value: unknown setting 'hostname'"),
])  # fmt: skip
def test_settings_that_a_critic_does_not_have_are_refused(flags, named):
    with pytest.raises(UserError, match=named):
        CriticFlags(**flags)


def test_flags_and_critic_settings_are_the_same_settings():
    for kind in ("log_ratio", "pmi"):
        flags = CriticFlags(critic_type=kind, model_id="m", normalize="none").chosen
        settings = CriticFlags(critic_type=kind, critic_settings={"model_id": "m", "normalize": "none"}).chosen
        assert flags == settings and flags.settings.normalize == "none"
    value = CriticFlags(critic_type="value", model_id="m", no_prompt=True, bf16=False).chosen
    assert value == ChosenCritic("value", {"model_id": "m", "no_prompt": True, "bf16": False})


def test_a_manifest_records_what_the_scores_depend_on(tmp_path):
    flags = {"model_id": "c", "reference_model_id": "seed", "no_prompt": True, "token_budget": 9, "bf16": False}
    expected = {"critic_type": "log_ratio", "model_id": "c", "no_prompt": True, "reference": "seed",
                "reference_model_id": "seed", "normalize": "turn", "bf16": False}  # fmt: skip
    assert CriticFlags(**flags).chosen.to_settings() == expected
    value = {"critic_type": "value", "model_id": "c", "no_prompt": False, "bf16": True}
    assert ChosenCritic("value", {"model_id": "c", "bf16": True}).to_settings() == value
    own = tmp_path / "own.txt"
    own.write_text("{dialogue} {first} {second}")
    usual, other_seed, other_prompt = (
        ChosenCritic("judge", {"model_id": "j", **more}).to_settings()
        for more in ({}, {"seed": 1}, {"judge_prompt_path": str(own)})
    )
    assert (usual["seed"], other_seed["seed"]) == (0, 1)
    assert usual["judge_prompt"] == other_seed["judge_prompt"] != other_prompt["judge_prompt"]


def test_the_reference_is_the_model_that_the_critic_was_trained_from(tmp_path):
    manifest, model = tmp_path / DIRECTORY_MANIFEST, str(tmp_path)
    manifest.write_text(json.dumps({"status": "finished", "settings": {"ref_pretrain": "the seed"}, "inputs": {}}))

    def settings(**more):
        return ChosenCritic("log_ratio", {"model_id": model, **more}).settings

    assert seed_of(model) == settings(reference="seed").seed_model == "the seed"
    assert settings(reference="seed", reference_model_id="given").seed_model == "given"
    assert settings(reference="sampled").scored_by() == [model]
    manifest.write_text("{}")
    assert seed_of(model) is None
    with pytest.raises(UserError, match="--reference_model_id"):
        settings(reference="seed").scored_by()
    manifest.write_text('{"status": "finis')  # damaged: no other reference is taken in silence
    with pytest.raises(UserError, match="not a manifest"):
        settings(reference="seed").scored_by()


@pytest.mark.parametrize("given, reference, of_finished", [
    ({}, ("sampled", None), ("seed_without_c", "the seed")),
    ({"reference_model_id": "m"}, ("seed_without_c", "m"), ("seed_without_c", "m")),
    ({"no_prompt": True}, ("sampled", None), ("seed", "the seed")),
    ({"reference": "seed"}, ("seed", "the seed"), ("seed", "the seed")),
    ({"reference": "sampled"}, ("sampled", None), ("sampled", None)),
])  # fmt: skip
def test_the_reference_does_not_see_the_solution_unless_that_is_asked_for(tmp_path, given, reference, of_finished):
    trained = {"status": "finished", "settings": {"ref_pretrain": "the seed"}, "inputs": {}}
    (tmp_path / DIRECTORY_MANIFEST).write_text(json.dumps(trained))
    chosen = ChosenCritic("log_ratio", {"model_id": str(tmp_path), "bf16": False, **given})
    for critic, expected in ((chosen, reference), (of_finished_dialogues(chosen), of_finished)):
        recorded = critic.to_settings()
        assert (recorded["reference"], recorded["reference_model_id"]) == expected


def test_a_users_file_ranks_and_its_hash_and_settings_are_recorded(short, tmp_path):
    out = tmp_path / "ranked.jsonl"
    rank_file(ChosenCritic(short, {"words": 2}), candidates(tmp_path), str(out))
    assert [record.judge_result for record in read_records(out, TurnCandidates)] == [[2, 0, 1]] * 3
    assert [record.judge_scores for record in read_records(out, TurnCandidates)] == [[-1.0, -1.0, 0.0]] * 3
    manifest = read_manifest(out)
    assert manifest["inputs"][short] == hash_input(short)
    assert manifest["settings"]["critic_type"] == "short.py"
    assert manifest["settings"]["critic_settings"] == {"words": 2, "weight": None}
    with pytest.raises(UserError, match="critic_settings.words: 2 -> 3"):
        rank_file(ChosenCritic(short, {"words": 3}), candidates(tmp_path), str(out))


def test_a_setting_that_is_given_twice_is_refused(short):
    with pytest.raises(UserError, match="--model_id is in --critic_settings too"):
        CriticFlags(model_id="other", critic_settings={"model_id": "mini"}).chosen  # noqa: B018


def test_scores_that_must_be_awaited_are_awaited():
    class Later:
        async def _scores(self, records):
            return [[1.0]]

        def scores(self, records):
            return self._scores(records)

    record = TurnCandidates([], "old", ["a"])
    assert asyncio.run(CheckedCritic(Later()).scores([record])) == [[1.0]]


@pytest.mark.parametrize("settings, named", [
    ({"word": 3}, "short.py: .*'word'.*words"), ({"words": "many"}, "short.py is 'many'"),
    ({"words": 0}, "words must be at least 1"),
])  # fmt: skip
def test_a_users_settings_are_checked_as_flags_are(short, settings, named):
    with pytest.raises(UserError, match=named):
        CriticFlags(critic_type=short, critic_settings=settings)


@pytest.mark.parametrize("changed, named", [
    (("CRITIC = CriticType(Settings, Short)", "CRITIC = Short"), "CRITIC that is a type"),
    (("CRITIC = CriticType(Settings, Short)", ""), "no CRITIC"),
    (("for record in records]", "for record in records[1:]]"), "2 lists for 3 records"),
    (("for text in record.additional_outputs]", "for text in record.additional_outputs[1:]]"), "3 candidates of '0'"),
    (("-abs(", "float('nan') * abs("), "nan.* for the 3 candidates of '0'.*finite"),
])  # fmt: skip
def test_a_file_that_is_no_critic_is_refused_by_what_is_wrong_in_it(tmp_path, changed, named):
    path = tmp_path / "bad.py"
    path.write_text(SHORT.replace(*changed))
    with pytest.raises(UserError, match=named):
        rank_file(ChosenCritic(str(path)), candidates(tmp_path), str(tmp_path / "out.jsonl"))


@pytest.mark.parametrize("scores", ["def scores", "async def scores"])
def test_what_a_file_raises_is_its_own_error_and_the_same_command_goes_on(tmp_path, scores):
    path, mended, source, out = tmp_path / "bad.py", tmp_path / "mended", candidates(tmp_path), tmp_path / "out.jsonl"
    fails = f"if records[0].id == '1': open({str(mended)!r})"
    text = SHORT.replace("    def scores", f"    turns_per_call = 1\n\n    {scores}")
    path.write_text(text.replace("        return [[", f"        {fails}\n        return [["))
    with pytest.raises(FileNotFoundError, match="mended"):
        rank_file(ChosenCritic(str(path)), source, str(out))
    assert [record.id for record in read_records(out, TurnCandidates)] == ["0"]
    mended.touch()
    rank_file(ChosenCritic(str(path)), source, str(out))
    assert [record.id for record in read_records(out, TurnCandidates)] == ["0", "1", "2"]


def test_log_probs_of_sampling_are_a_reference_at_temperature_1_only():
    with pytest.raises(UserError, match="--temperature: .* temperature 0.3"):
        best_of_n(ChosenCritic("log_ratio", {"model_id": "m"}), 0.3)
    assert best_of_n(ChosenCritic("pmi", {"model_id": "mini"}), 0.3).settings["critic_type"] == "pmi"
