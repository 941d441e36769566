import hashlib
import json
import time

import pytest

import sweet_rl
from sweet_rl.runs import manifest
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import Manifest, hash_input, read_manifest
from sweet_rl.runs.run import open_run


def differences(old, new, tmp_path):
    path = tmp_path / "manifest.json"
    Manifest(path, old, []).write()
    try:
        Manifest(path, new, []).adopt(read_manifest(tmp_path), "the output")
    except UserError as error:
        return [line.strip() for line in str(error).splitlines() if " -> " in line and line.startswith("  ")]
    return []


def test_a_setting_of_a_group_is_named_with_its_group(tmp_path):
    old = {"critic": {"model": "a", "beta": 0.1}, "seed": 0}
    new = {"critic": {"model": "a", "beta": 0.2}, "seed": 0}
    assert differences(old, new, tmp_path) == ["critic.beta: 0.1 -> 0.2"]
    assert differences(old, {"critic": None, "seed": 0}, tmp_path) == [
        "critic.beta: 0.1 -> (not given)",
        'critic.model: "a" -> (not given)',
    ]


@pytest.mark.parametrize("value", [False, 0, "", [1], "null"])
def test_a_setting_that_is_null_is_one_that_is_not_given_and_nothing_else_is(value, tmp_path):
    assert differences({"a": None}, {}, tmp_path) == differences({}, {"a": None}, tmp_path) == []
    assert differences({"a": value}, {}, tmp_path) == [f"a: {json.dumps(value)} -> (not given)"]
    assert differences({"a": value}, {"a": value}, tmp_path) == []


def test_a_number_is_not_its_text_nor_a_truth_value(tmp_path):
    assert differences({"a": 1}, {"a": "1"}, tmp_path) == ['a: 1 -> "1"']
    assert differences({"a": 1}, {"a": True}, tmp_path) == ["a: 1 -> true"]
    assert differences({"a": (1, 2)}, {"a": [1, 2]}, tmp_path) == []


def test_the_seed_and_the_versions_stand_in_the_manifest(tmp_path):
    Manifest(tmp_path / "m.json", {"seed": 7}, []).write()
    content = json.loads((tmp_path / "m.json").read_text())
    assert content["seed"] == content["settings"]["seed"] == 7 and content["status"] == "running"
    assert content["versions"]["sweet_rl"] == sweet_rl.__version__ and "torch" in content["versions"]
    assert [path.name for path in tmp_path.iterdir()] == ["m.json"]


def test_another_programs_file_of_that_name_in_a_folder_is_no_manifest(tmp_path):
    for text in ('{"name": "onnx"}', '{"status": "finished", "settings": null, "inputs": null}'):
        (tmp_path / "manifest.json").write_text(text)
        (tmp_path / "m.manifest.json").write_text(text)
        assert read_manifest(tmp_path) is None
        with pytest.raises(UserError, match="not a manifest"):  # the name of a file's manifest is our own
            read_manifest(tmp_path / "m")


@pytest.mark.parametrize("text", ["", "[]", '{"status": "x", "settings": {}, "inp'])
def test_what_is_no_manifest_is_refused(tmp_path, text):
    (tmp_path / "m.manifest.json").write_text(text)
    (tmp_path / "manifest.json").write_text(text)
    for output in (tmp_path / "m", tmp_path):
        with pytest.raises(UserError, match="manifest.json is not a manifest"):
            read_manifest(output)
    assert read_manifest(tmp_path / "other") is None


def test_cpu_seconds_are_noted_with_one_output_only(tmp_path):
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass
    for name in ("first.jsonl", "second.jsonl"):
        with open_run(tmp_path / name, {}, []) as run:
            run.finish({})
    first, second = (read_manifest(tmp_path / name)["cpu_seconds"] for name in ("first.jsonl", "second.jsonl"))
    assert first >= 0.2 > second


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
