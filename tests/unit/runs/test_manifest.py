"""What a manifest holds, and when two runs are the same."""

from __future__ import annotations

import hashlib
import json

import pytest

import sweet_rl
from sweet_rl.runs import manifest
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import check_same_run, hash_input, new_manifest


def differences(old, new):
    try:
        check_same_run(json.loads(json.dumps(new_manifest(old, []))), new_manifest(new, []), "the output")
    except UserError as error:
        return [line.strip() for line in str(error).splitlines() if " -> " in line and line.startswith("  ")]
    return []


def test_a_setting_of_a_group_is_named_with_its_group():
    old = {"critic": {"model": "a", "beta": 0.1}, "seed": 0}
    new = {"critic": {"model": "a", "beta": 0.2}, "seed": 0}
    assert differences(old, new) == ["critic.beta: 0.1 -> 0.2"]
    assert differences(old, {"critic": None, "seed": 0}) == [
        "critic.beta: 0.1 -> (not given)",
        'critic.model: "a" -> (not given)',
    ]


@pytest.mark.parametrize("value", [False, 0, "", [1], "null"])
def test_a_setting_that_is_null_is_one_that_is_not_given_and_nothing_else_is(value):
    assert differences({"a": None}, {}) == differences({}, {"a": None}) == []
    assert differences({"a": value}, {}) == [f"a: {json.dumps(value)} -> (not given)"]
    assert differences({"a": value}, {"a": value}) == differences({"a": (1, 2)}, {"a": [1, 2]}) == []
    assert differences({"a": 1}, {"a": "1"}) == ['a: 1 -> "1"']


def test_the_seed_and_the_versions_stand_in_the_manifest():
    content = new_manifest({"seed": 7}, [])
    assert content["seed"] == content["settings"]["seed"] == 7 and content["status"] == "running"
    assert content["versions"]["sweet_rl"] == sweet_rl.__version__ and "torch" in content["versions"]


def test_the_hash_of_a_file_is_its_sha256(tmp_path):
    (tmp_path / "a").write_bytes(b"a" * (2**20 + 1))
    assert hash_input(str(tmp_path / "a")) == hashlib.sha256(b"a" * (2**20 + 1)).hexdigest()


def test_the_hash_of_a_model_is_of_its_files_not_of_its_manifest(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "manifest.json").write_text("1")
    before = hash_input(tmp_path)
    (tmp_path / "manifest.json").write_text("2")
    (tmp_path / "checkpoints").mkdir()
    assert hash_input(tmp_path) == before
    (tmp_path / "config.json").write_text("{ }")
    assert hash_input(tmp_path) != before
    (tmp_path / "config.json").rename(tmp_path / "other.json")
    (tmp_path / "other.json").write_text("{}")
    assert hash_input(tmp_path) != before


def test_of_large_files_of_a_model_the_size_and_both_ends_count(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "_BIG", 10)
    monkeypatch.setattr(manifest, "_END", 3)
    weights = tmp_path / "model.safetensors"

    def hashed(content):
        weights.write_bytes(content)
        return hash_input(tmp_path)

    whole = hashed(b"abc-----xyz")
    assert hashed(b"abc--o--xyz") == whole
    assert whole not in {hashed(b"abC-----xyz"), hashed(b"abc-----Xyz"), hashed(b"abc------xyz")}
    assert hashed(b"abc----xyz") != hashed(b"abc-o--xyz")  # not large: all of it counts
