"""The cost of a trained agent, by hand: manifests followed to everything that was made before it."""

import json

import pytest

from sweet_rl.evaluation.budget import behind, cost_of


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
    return tmp_path


def test_the_cost_is_that_of_all_that_was_made_before_and_not_of_playing_the_test(world):
    assert cost_of("zero.graded.jsonl") == {"cpu_seconds": 0, "dialogues": 0}
    assert cost_of("a.graded.jsonl") == {"cpu_seconds": 10 + 1 + 107, "dialogues": 40}
    assert cost_of("b.graded.jsonl") == {"cpu_seconds": 10 + 1 + 107 + 20 + 5 + 50, "dialogues": 40}
    assert {str(world / "train.jsonl"), str(world / "a")} <= set(behind("b"))
