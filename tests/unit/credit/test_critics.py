"""Settings of critics: what contradicts itself is refused, and what scores depend on is recorded."""

import json

import pytest

from sweet_rl.cli import flags_of
from sweet_rl.credit.critics import CriticSettings, seed_of
from sweet_rl.errors import UserError
from sweet_rl.runs.manifest import DIRECTORY_MANIFEST


@pytest.mark.parametrize("changes, named", [
    ({"critic_type": "oracle"}, "--critic_type"),
    ({"reference": "other"}, "--reference"),
    ({"normalize": "word"}, "--normalize"),
    ({"engine": "cuda"}, "--engine"),
    ({"engine": "openai"}, "--engine"),
    ({"critic_type": "value", "engine": "vllm"}, "--engine"),
    ({"critic_type": "value", "reference": "sampled"}, "--critic_type value"),
    ({"critic_type": "value", "reference_model_id": "m"}, "--critic_type value"),
    ({"reference": "sampled", "reference_model_id": "m"}, "--reference_model_id"),
    ({"hostname": "localhost"}, "--hostname"),
    ({"token_budget": 0}, "--token_budget"),
    ({"concurrency": 0}, "--concurrency"),
    ({"top_tokens": 0}, "--top_tokens"),
    ({"clip": 0.0}, "--clip"),
    ({"clip": float("nan")}, "--clip"),
    ({"purification": -1.0}, "--purification"),
    ({"reply": True}, "--reply"),
    ({"reference": "seed_without_c", "no_prompt": True}, "--no_prompt"),
    ({"critic_type": "pmi", "no_prompt": True}, "--no_prompt"),
    ({"critic_type": "pmi", "reference": "sampled"}, "--critic_type pmi"),
    ({"critic_type": "belief_gain", "reference_model_id": "m"}, "--critic_type belief_gain"),
])  # fmt: skip
def test_settings_that_contradict_each_other_are_refused(changes, named):
    with pytest.raises(UserError, match=named):
        CriticSettings("mini", **changes)


def test_the_smallest_values_and_a_judge_on_any_engine_are_accepted():
    assert CriticSettings("mini", token_budget=1, concurrency=1, seed=0).hint
    assert not CriticSettings("m", critic_type="judge", engine="openai", hostname="h", no_prompt=True).hint


def test_a_manifest_records_what_the_scores_depend_on():
    log_ratio = CriticSettings("c", reference_model_id="seed", no_prompt=True, seed=5, token_budget=9)
    expected = {"model_id": "c", "critic_type": "log_ratio", "hint": False, "reference": "seed",
                "reference_model_id": "seed", "normalize": "turn", "bf16": False}  # fmt: skip
    assert log_ratio.to_settings() == expected
    sampled = CriticSettings("c", reference="sampled", engine="vllm").to_settings()
    assert (sampled["reference_model_id"], sampled["engine"]) == (None, "vllm")
    value = {"model_id": "c", "critic_type": "value", "hint": True, "bf16": True}
    assert CriticSettings("c", critic_type="value", bf16=True).to_settings() == value


def test_a_manifest_records_an_aggregation_only_if_it_is_not_the_usual_one():
    pmi = {"model_id": "m", "critic_type": "pmi", "hint": True, "normalize": "turn", "bf16": False}
    assert CriticSettings("m", "pmi", top_tokens=3, seed=4).to_settings() == pmi
    top = CriticSettings("m", "pmi", normalize="top", top_tokens=3, clip=2.0).to_settings()
    assert top == pmi | {"normalize": "top", "top_tokens": 3, "clip": 2.0}
    purified = CriticSettings("m", "purified", purification=0.5).to_settings()
    assert purified == pmi | {"critic_type": "purified", "purification": 0.5}
    asked, unasked = (CriticSettings("m", "belief_gain", reply=reply, seed=4).to_settings() for reply in (True, False))
    assert asked == pmi | {"critic_type": "belief_gain", "reply": True, "seed": 4}
    assert unasked == pmi | {"critic_type": "belief_gain", "reply": False}
    seed = CriticSettings("c", reference="seed_without_c", reference_model_id="m").to_settings()
    assert (seed["reference"], seed["reference_model_id"]) == ("seed_without_c", "m")


def test_a_judges_seed_and_the_text_of_its_prompt_are_recorded(tmp_path):
    own = tmp_path / "own.txt"
    own.write_text("{dialogue} {first} {second}")
    usual, other_seed, other_prompt = (
        CriticSettings("j", critic_type="judge", **more).to_settings()
        for more in ({}, {"seed": 1}, {"judge_prompt_path": str(own)})
    )
    assert (usual["seed"], other_seed["seed"]) == (0, 1)
    assert usual["judge_prompt"] == other_seed["judge_prompt"] != other_prompt["judge_prompt"]


def test_the_reference_is_the_model_that_the_critic_was_trained_from(tmp_path):
    manifest = tmp_path / DIRECTORY_MANIFEST
    manifest.write_text(json.dumps({"status": "finished", "settings": {"ref_pretrain": "the seed"}, "inputs": {}}))
    assert seed_of(str(tmp_path)) == CriticSettings(str(tmp_path)).seed_model == "the seed"
    assert CriticSettings(str(tmp_path), reference_model_id="given").seed_model == "given"
    assert CriticSettings(str(tmp_path), reference="sampled").seed_model is None
    assert CriticSettings(str(tmp_path), critic_type="judge").seed_model is None
    assert CriticSettings(str(tmp_path), reference="sampled").inputs() == [str(tmp_path)]
    manifest.write_text("{}")
    assert seed_of(str(tmp_path)) is None
    with pytest.raises(UserError, match="--reference_model_id"):
        _ = CriticSettings(str(tmp_path), reference="seed").seed_model
    manifest.write_text('{"status": "finis')  # damaged: no other reference is taken in silence
    with pytest.raises(UserError, match="not a manifest"):
        _ = CriticSettings(str(tmp_path)).seed_model


def test_the_reference_of_a_critic_without_a_manifest_is_the_log_probs_of_sampling_unless_it_is_named(tmp_path):
    released = CriticSettings(str(tmp_path))
    assert released.seed_model is None and released.to_settings()["reference"] == "sampled"
    assert CriticSettings(str(tmp_path), reference_model_id="m").to_settings()["reference"] == "seed"
    with pytest.raises(UserError, match="--reference_model_id"):
        CriticSettings(str(tmp_path), reference="seed").to_settings()


def test_every_field_is_a_flag_with_a_help_text():
    def main(critic: CriticSettings) -> None: ...

    main.__annotations__["critic"] = CriticSettings
    flags = flags_of(main)
    assert {"model_id", "no_prompt", "judge_prompt_path", "seed"} <= flags.keys()
    assert all(flag.help for flag in flags.values())
