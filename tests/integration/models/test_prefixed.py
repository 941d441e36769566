"""An agent whose replies begin with a given text, in a script."""

from tests.support.command_line import ROOT, call, read_rows


def test_a_single_turn_of_the_tiny_agent_is_an_answer(tmp_path):
    assert call("make_mini_tasks.py", num_train=1, num_test=6, output_dir=tmp_path).code == 0
    flags = {"config": ROOT / "configs" / "mini" / "single_turn.yaml", "agent_model": "mini"}
    paths = {"input_path": tmp_path / "test.jsonl", "output_path": tmp_path / "o.jsonl"}
    done = call("simulate_interactions.py", **paths, **flags)
    assert done.code == 0, done.err
    rows = read_rows(tmp_path / "o.jsonl")
    assert [row["ending"] for row in rows] == ["answered"] * 6
    other = call("simulate_interactions.py", **paths, **flags, agent_prefix="Hm.")
    assert other.code == 2 and "  agent_prefix: " in other.err
    assert all(len(row["dialogue_history"]) == 2 and row["answer"].startswith("def ") for row in rows)
