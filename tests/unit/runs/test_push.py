"""The card of an upload."""

import yaml

from sweet_rl.runs.push import card

MANIFEST = {
    "status": "finished",
    "finished": "2026-01-02T03:04:05Z",
    "settings": {
        "pretrain": "meta-llama/Llama-3.1-8B-Instruct", "dataset": "/home/me/pairs.jsonl", "beta": 0.1, "limit": None,
        "critic": {"model_id": "/home/me/critic"}, "template": "a|b\n`c`", "marks": ["<é>"],
    },
    "inputs": {"/home/me/pairs.jsonl": "1" * 64, "colbench/backend/train": "2" * 64},
    "summary": {"steps": 3, "last": {"loss": 0.5}},
    "versions": {"python": "3.11.7", "sweet_rl": "1.0"},
}  # fmt: skip


def parts(name: str, trained: bool, **settings: str) -> tuple[dict, str]:
    manifest = {**MANIFEST, "settings": {**MANIFEST["settings"], **settings}}
    _, metadata, text = card(name, manifest, trained).split("---\n", 2)
    return yaml.safe_load(metadata), text


def test_the_card_says_how_it_was_made_without_the_folders_of_this_machine():
    _, text = parts("critic", trained=True)
    rows = [
        "| dataset | `pairs.jsonl` |", "| beta | `0.1` |", '| critic | `{"model_id": "critic"}` |',
        "| template | `a\\|b 'c'` |", '| marks | `["<é>"]` |', '| last | `{"loss": 0.5}` |',
        f"| pairs.jsonl | `sha256 {'1' * 64}` |", f"| colbench/backend/train | `sha256 {'2' * 64}` |",
        "sweet_rl 1.0, finished 2026-01-02T03:04:05Z",
    ]  # fmt: skip
    assert [row for row in rows if row not in text] == []
    assert "/home/me" not in text and "limit" not in text and "python 3.11.7" in text


def test_the_metadata_of_a_model_names_its_base_and_those_of_a_dataset_its_file():
    model, _ = parts("critic", trained=True)
    assert model["base_model"] == "meta-llama/Llama-3.1-8B-Instruct" and model["library_name"] == "transformers"
    of_a_folder, _ = parts("critic", trained=True, pretrain="/home/me/a/folder/that/is/gone")
    assert "base_model" not in of_a_folder
    data, _ = parts("pairs.jsonl", trained=False)
    assert data["configs"] == [{"config_name": "default", "data_files": "pairs.jsonl"}] and "base_model" not in data
