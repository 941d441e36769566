"""The cost of a trained agent, by hand: manifests followed to everything that was made before it."""

import json

import pytest

from lab.plots.budget import UnknownCost, behind, behind_dialogues, cost_of


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Two agents of one collection: `a` trained on pairs, `b` on those and on candidates ranked by a critic."""
    monkeypatch.chdir(tmp_path)
    made = {
        "trajectories.jsonl": ["train.jsonl"],
        "rewarded.jsonl": ["trajectories.jsonl"],
        "pairs.jsonl": ["rewarded.jsonl"],
        "a": ["pairs.jsonl"],
        "candidates.jsonl": ["rewarded.jsonl"],
        "ranked.jsonl": ["candidates.jsonl", "a"],
        "b": ["ranked.jsonl"],
        "a.test.jsonl": ["test.jsonl", "a"],
        "b.test.jsonl": ["test.jsonl", "b"],
        "zero.test.jsonl": ["test.jsonl"],
        **{f"{name}.graded.jsonl": [f"{name}.test.jsonl"] for name in ("a", "b", "zero")},
    }
    seconds = {"trajectories.jsonl": 10, "rewarded.jsonl": 1, "a": 107, "candidates.jsonl": 20, "ranked.jsonl": 5,
               "b": 50, "a.test.jsonl": 1000}  # fmt: skip
    for name, inputs in made.items():
        played = name in ("trajectories.jsonl", "a.test.jsonl", "b.test.jsonl", "zero.test.jsonl")
        settings = {"agent_model": "mini", "env_model": "mini"} if played else {}
        manifest = {"status": "finished", "settings": settings, "inputs": dict.fromkeys(inputs, "0"),
                    "summary": {"dialogues": 40}, "cpu_seconds": seconds.get(name, 0)}  # fmt: skip
        if "." not in name:
            (tmp_path / name).mkdir()
        path = tmp_path / name / "manifest.json" if "." not in name else tmp_path / f"{name}.manifest.json"
        path.write_text(json.dumps(manifest))
    for tasks in ("train.jsonl", "test.jsonl"):
        (tmp_path / tasks).touch()
    return tmp_path


def test_the_cost_is_that_of_all_that_was_made_before_and_not_of_playing_the_test(world):
    assert cost_of("zero.graded.jsonl") == {"cpu_seconds": 0, "dialogues": 0}
    assert cost_of("a.graded.jsonl") == {"cpu_seconds": 10 + 1 + 107, "dialogues": 40}
    assert cost_of("b.graded.jsonl") == {"cpu_seconds": 10 + 1 + 107 + 20 + 5 + 50, "dialogues": 40}
    assert {str(world / "train.jsonl"), str(world / "a")} <= set(behind("b"))


def test_dialogues_played_in_shards_cost_what_whole_ones_do(world):
    shards = [f"a.test.{number}.jsonl" for number in range(2)]
    for name, inputs, settings in (
        *((one, ["test.jsonl", "a"], {}) for one in shards),
        ("a.test.jsonl", shards, {"gathered": 2}),
    ):
        manifest = {"status": "finished", "settings": settings, "inputs": dict.fromkeys(inputs, "0")}
        (world / f"{name}.manifest.json").write_text(json.dumps(manifest))
    assert cost_of("a.graded.jsonl") == {"cpu_seconds": 10 + 1 + 107, "dialogues": 40}
    paths = behind_dialogues("a.graded.jsonl")
    assert len(paths) == len(set(paths))


@pytest.mark.parametrize(
    "gone", ["trajectories.jsonl.manifest.json", "a/manifest.json", "a.graded.jsonl.manifest.json"]
)
def test_what_was_made_with_something_that_is_elsewhere_has_no_known_cost(world, gone):
    (world / gone).unlink()
    if gone.startswith("a/"):
        (world / "a").rmdir()
    with pytest.raises(UnknownCost, match=rf"{gone.partition('/')[0].removesuffix('.manifest.json')} is not here"):
        cost_of("a.graded.jsonl")
