"""Figures of studies: what is drawn where."""

import json

import pytest

pytest.importorskip("matplotlib")

from lab.plots.drawings import best_aggregations, budget, budget_points, credit, credit_study, lengths
from lab.plots.message_lengths import message_lengths
from lab.plots.plot_study import main
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, Trajectory


def estimate(mean, width=0.1):
    return {"mean": mean, "low": mean - width, "high": mean + width, "tasks": 10}


def dialogue(key, *messages):
    history = [{"role": "assistant", "content": text, "token_ids": [1] * size} for text, size in messages]
    return Trajectory(Task("p", "g", id=key), history, ending="answered")


def test_lengths_are_means_over_messages_by_turn():
    rows = [dialogue("a", ("why?", 4), ("how?", 2), ("I WANT TO ANSWER: x", 30)),
            dialogue("b", ("what?", 6), ("I WANT TO ANSWER: y", 10)), dialogue("c", ("so?", 2))]  # fmt: skip
    found = message_lengths(rows)
    assert found["questions"] == {1: 4.0, 2: 2.0} and found["answers"] == 20.0 and found["unit"] == "tokens"
    assert found["answered"] == pytest.approx(2 / 3)
    by_turn, answers = lengths({"run": rows}).axes
    assert by_turn.lines[0].get_xydata().tolist() == [[1, 4], [2, 2]] and answers.patches[0].get_width() == 20
    assert [text.get_text() for text in answers.texts] == ["67 % answer"]


def study_result(*shares):
    groups = {
        name: {"accuracy": share, "interval": [share - 0.1, share + 0.05], "pairs": 9}
        for name, share in zip(("question", "stop"), shares, strict=True)
    }
    return {"groups": groups, "smallest": min(shares)}


STUDY = {
    "pmi, mean": study_result(0.5, 0.9), "pmi, top": study_result(0.6, 0.7),
    "trained, mean@200": study_result(0.8, 0.7), "trained, sum@200": study_result(0.2, 0.3),
    "trained, mean@50": study_result(0.6, 0.4), "trained, sum@50": study_result(0.9, 0.9),
}  # fmt: skip


def test_of_a_critics_aggregations_the_one_with_the_highest_smallest_accuracy_is_drawn():
    levels, trained = best_aggregations(STUDY)
    assert list(levels) == ["pmi, top"] and list(trained) == ["trained, mean"]
    assert [dialogues for dialogues, _ in trained["trained, mean"]] == [50, 200]


def test_a_study_draws_trained_critics_by_their_dialogues_and_the_others_as_levels():
    question, stop = credit_study(STUDY).axes
    for axis, level, points in ((question, 60, [60, 80]), (stop, 70, [40, 70])):
        (box,) = axis.containers
        assert box.lines[0].get_xydata().round(6).tolist() == [[50, points[0]], [200, points[1]]]
        ends = [segment[:, 1].round(6).tolist() for segment in box.lines[2][0].get_segments()]
        assert ends == [[points[0] - 10, points[0] + 5], [points[1] - 10, points[1] + 5]]
        drawn = {line.get_label(): line.get_ydata() for line in axis.lines}
        assert list(drawn["pmi, top"]) == pytest.approx([level] * 2)
    assert question.get_xscale() == "log"


def test_a_decision_without_pairs_is_an_empty_panel():
    empty = {"accuracy": None, "interval": None, "pairs": 0}
    nothing = {name: result | {"groups": result["groups"] | {"stop": empty}} for name, result in STUDY.items()}
    _, stop = credit_study(nothing).axes
    assert not stop.containers and {line.get_label() for line in stop.lines}.isdisjoint({"pmi, top"})


def test_credit_has_a_panel_for_each_decision_and_leaves_out_turns_with_few_pairs():
    group = {"accuracy": 0.9, "interval": [0.8, 1], "pairs": 70,
             "by_turn": {"0": {"accuracy": 0.9, "pairs": 60}, "1": {"accuracy": 0.8, "pairs": 3}}}  # fmt: skip
    axes = credit({"critic": {"groups": {"question": group, "stop": group}}}).axes
    assert len(axes) == 2 and axes[0].lines[0].get_xydata().tolist() == [[1, 90.0]]


def test_a_budget_is_drawn_against_compute_and_against_dialogues():
    costs = {"zero-shot": (0, 0, 0.2), "DPO": (200, 2000, 0.9), "SWEET-RL": (300, 2000, 0.96)}
    points = [
        {"name": name, "cpu_seconds": cpu, "dialogues": dialogues, **estimate(mean)}
        for name, (cpu, dialogues, mean) in costs.items()
    ]
    compute, dialogues = budget(points).axes
    assert compute.get_xlabel() == "CPU seconds per seed\nwithout training: zero-shot 20.0 %"
    assert [drawn.lines[0].get_xdata().tolist() for drawn in dialogues.containers] == [[2000], [2040]]
    assert compute.get_ylim()[0] > 50  # else the trained ones could not be told apart


def test_a_runs_cost_is_the_mean_over_its_seeds(tmp_path):
    for seed, seconds in (("a", 100), ("b", 200)):
        for name, inputs in {
            f"{seed}.graded.jsonl": [f"{seed}.test.jsonl"],
            f"{seed}.test.jsonl": [f"{seed}.pairs.jsonl"],
            f"{seed}.pairs.jsonl": [],
        }.items():
            content = {"settings": {}, "inputs": {str(tmp_path / path): "0" for path in inputs}, "status": "finished"}
            (tmp_path / f"{name}.manifest.json").write_text(json.dumps(content | {"cpu_seconds": seconds}))
    files = {"x": [str(tmp_path / f"{seed}.graded.jsonl") for seed in "ab"]}
    runs = [{"name": "x", "success": {"mean": 0.5, "low": 0.4, "high": 0.6}}]
    (point,) = budget_points({"measure": "success", "runs": runs, "files": files})
    assert point["cpu_seconds"] == 150 and point["mean"] == 0.5
    (tmp_path / "b.graded.jsonl.manifest.json").unlink()
    with pytest.raises(UserError, match="b.graded.jsonl is not here"):
        budget_points({"measure": "success", "runs": runs, "files": files})


def test_the_command_draws_results_and_names_who_writes_them(tmp_path):
    (tmp_path / "study.json").write_text(json.dumps(STUDY))
    main("credit_study", str(tmp_path / "study.json"), str(tmp_path / "out" / "study.png"))
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"study.png", "study.svg"}
    with pytest.raises(UserError, match="compare_runs.py writes them"):
        main("budget", str(tmp_path / "study.json"), str(tmp_path / "out" / "budget.png"))
