"""An agent whose replies begin with a given text, in a script."""

from tests.support.command_line import ROOT, call, check_call, read_rows


def test_a_single_turn_of_the_tiny_agent_is_an_answer(mini_run, tmp_path):
    flags = {"config": ROOT / "configs" / "mini" / "single_turn.yaml", "agent_model": "mini"}
    flags |= {"input_path": mini_run / "tasks" / "train.jsonl", "output_path": tmp_path / "o.jsonl"}
    check_call("simulate_interactions.py", **flags)
    rows = read_rows(tmp_path / "o.jsonl")
    assert [row["ending"] for row in rows] == ["answered"] * 6
    assert all(len(row["dialogue_history"]) == 2 and row["answer"].startswith("def ") for row in rows)
    other = call("simulate_interactions.py", **flags, agent_prefix="Hm.")
    assert other.code == 2 and "agent_prefix" in other.err
