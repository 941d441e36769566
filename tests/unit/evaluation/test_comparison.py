"""Several runs on the same tasks: hand-computed differences, wins, Holm's correction, tables, and what is refused."""

import json

import numpy as np
import pytest

from sweet_rl.evaluation.compare import ComparisonSettings, compare, compare_files
from sweet_rl.evaluation.graded_file import GradedFile, grader_of, read_graded
from sweet_rl.evaluation.paper import paper_results
from sweet_rl.evaluation.statistics import two_level_p
from sweet_rl.evaluation.table import Table, as_latex, as_markdown, as_text, tables
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task, Trajectory
from tests.support.command_line import ROOT, call, write_rows
from tests.support.tables import unpadded

TASKS = [Task(f"task {i}", f"def f(): return {i}", {"test1": "f()"}, id=f"t{i}") for i in range(12)]


def dialogue(task, sample, reward, turns=2, ending="answered", tokens=None, grade=None):
    history = [{"role": "user", "content": "hello"}] + [{"role": "assistant", "content": "x"}] * turns
    usage = None if tokens is None else {"agent": {"completion_tokens": tokens, "prompt_tokens": 1}}
    return Trajectory(
        TASKS[task], history, "x", reward, id=f"t{task}-{sample}", ending=ending, usage=usage, grade=grade
    )


def graded(rows, path="run.jsonl", **grader):
    return GradedFile(path, rows, grader)


def run_of(*rewards, **more):
    return graded([dialogue(i, 0, reward, **more) for i, reward in enumerate(rewards)])


def against(comparison, name, baseline):
    """The difference of a run to a baseline, and its wins."""
    run = next(run for run in comparison["runs"] if run["name"] == name)
    return run["difference_to"][baseline], run["wins_against"][baseline]


def test_the_difference_to_a_baseline_is_paired_by_task():
    comparison = compare({"base": [run_of(0, 0, 0, 1)], "new": [run_of(1, 1, 0.5, 1)]}, ["base"])
    base, new = comparison["runs"]
    assert base["success"]["mean"] == 0.25 and new["success"]["mean"] == 0.75
    assert new["tests_passed"]["mean"] == 0.875
    # success differs on two tasks, both in favour: of 4 sign patterns two are as far from 0
    difference, wins = against(comparison, "new", "base")
    assert difference["mean"] == 0.5 and difference["p"] == 0.5 and base["difference_to"] == {}
    # wins by reward: three tasks better, one equal
    assert wins["mean"] == (1 + 1 + 1 + 0.5) / 4 and wins["low"] == 0.5 + 1 / 8 and wins["high"] == 1


def test_wins_count_every_pair_of_dialogues_of_a_task():
    one = graded([dialogue(0, 0, 1.0), dialogue(0, 1, 0.0)])
    other = graded([dialogue(0, 0, 0.5), dialogue(0, 1, 0.0)])
    # 1.0 beats both; 0.0 loses to 0.5 and ties with 0.0
    _, wins = against(compare({"a": [one], "b": [other]}, ["b"]), "a", "b")
    assert wins["mean"] == (1 + 1 + 0 + 0.5) / 4


def test_the_steps_of_a_chain_are_holm_corrected_together():
    runs = {"a": [run_of(*[1] * 12)], "b": [run_of(*[1] * 6, *[0] * 6)], "c": [run_of(*[0] * 12)]}
    first, second = compare(runs, chains=[["a", "b", "c"]])["steps"]
    # each step differs on 6 tasks, all one way: p = 2 / 2^6; two of them
    assert (first["better"], first["worse"], second["worse"]) == ("a", "b", "c")
    assert first["difference"]["p"] == second["difference"]["p"] == 2 / 64
    assert first["p_holm"] == second["p_holm"] == 2 * 2 / 64
    (alone,) = compare(runs, chains=[["a", "b"]])["steps"]
    assert alone["p_holm"] == 2 / 64


def test_all_comparisons_with_baselines_are_one_family():
    runs = {"a": [run_of(*[1] * 12)], "b": [run_of(*[1] * 6, *[0] * 6)], "c": [run_of(*[0] * 12)]}
    (one, _), (other, _) = (against(compare(runs, ["c"]), name, "c") for name in "ab")
    # a over c differs on 12 tasks (p = 2 / 2^12, counted twice), b over c on 6 (p = 2 / 2^6, the larger, once)
    assert one["p_holm"] == 2 * 2 / 2**12 and other["p_holm"] == 2 / 2**6


def test_seeds_are_averaged_within_each_task_and_their_spread_is_told():
    comparison = compare({"m": [run_of(1, 0, 0, 0), run_of(1, 1, 0, 0)]})
    (row,) = comparison["runs"]
    assert row["success"]["mean"] == 0.375 and row["success"]["tasks"] == 4 and row["seeds"] == 2
    assert row["success_by_seed"] == row["tests_passed_by_seed"] == [0.25, 0.5]
    assert row["success_spread"] == pytest.approx(0.25 / 2**0.5)
    assert [line[4] for line in tables(comparison)[0].cells] == ["±", "17.7"]  # 25 / sqrt(2) percent


def test_more_seeds_or_dialogues_of_a_task_are_no_more_tasks_for_the_interval():
    rewards = (1, 0, 0, 1, 0, 1)
    single = compare({"m": [run_of(*rewards)]})["runs"][0]["success"]
    doubled = graded([dialogue(i, sample, reward) for i, reward in enumerate(rewards) for sample in (0, 1)])
    tripled = compare({"m": [run_of(*rewards)] * 3})["runs"][0]["success"]
    assert tripled == pytest.approx(single) and tripled["tasks"] == 6
    assert compare({"m": [doubled]})["runs"][0]["success"] == single and single["low"] < single["high"]


def test_a_task_without_a_graded_dialogue_in_one_run_is_left_out_of_all():
    gap = [dialogue(i, 0, None if i == 1 else 1.0, ending="failed" if i == 1 else "answered") for i in range(4)]
    comparison = compare({"a": [graded(gap)], "b": [run_of(1, 0, 1, 0)]}, ["a"])
    assert comparison["tasks"] == 3 and comparison["left_out_tasks"] == ["t1"]
    assert [row["success"]["mean"] for row in comparison["runs"]] == [1.0, pytest.approx(2 / 3)]


def test_pages_are_compared_by_similarity():
    page = {"grade": {"failure": None, "similarity": 0.5, "encoder": "clip"}}
    one = [dialogue(i, 0, 0.5 + i / 10, **page) for i in range(3)]
    other = [dialogue(i, 0, 0.5, **page) for i in range(3)]
    files = {name: [graded(rows, **grader_of(name, rows))] for name, rows in {"a": one, "b": other}.items()}
    comparison = compare(files, ["b"])
    assert comparison["measure"] == "similarity"
    assert comparison["runs"][0]["similarity"]["mean"] == pytest.approx(0.6)
    assert against(comparison, "a", "b")[1]["mean"] == (0.5 + 1 + 1) / 3
    assert "similarity by clip" in as_text(comparison) and "tests passed" not in as_text(comparison)


def test_runs_of_a_domain_with_a_graded_reward_are_compared_by_it():
    grade = {"grade": {"failure": None, "grader": "mine.reward (12345678)"}}
    files = {}
    for name, gain in {"a": 0.1, "b": 0.0}.items():
        rows = [dialogue(i, 0, 0.5 + i * gain, **grade) for i in range(3)]
        files[name] = [graded(rows, **grader_of(name, rows))]
    comparison = compare(files, ["b"])
    assert against(comparison, "a", "b")[0]["mean"] == pytest.approx(0.1)
    text = as_text(comparison)
    assert "reward %" in text and "60.0" in text and "tests passed" not in text and "success" not in text


def test_runs_on_tasks_with_another_solution_are_refused():
    other = dialogue(0, 0, 1.0)
    other.task = Task("task 0", "def f(): return 99", {"test1": "f()"}, id="t0")
    with pytest.raises(UserError, match="another solution.*t0"):
        compare({"a": [run_of(1)], "b": [graded([other])]})


@pytest.mark.parametrize("one, other, said", [
    ({"encoder": "clip"}, {"encoder": "efficientnet"}, "encoder: clip and efficientnet"),
    ({"kind": "code", "grader": "paper"}, {"kind": "code"}, "grader: paper and .not given"),
    ({"timeout": 1.0}, {"timeout": 2.0}, "timeout: 1.0 and 2.0"),
    ({"kind": "code"}, {"kind": "page"}, "kind: code and page"),
])  # fmt: skip
def test_runs_graded_differently_are_refused_saying_how(one, other, said):
    with pytest.raises(UserError, match=said):
        compare({"a": [graded(run_of(1).trajectories, **one)], "b": [graded(run_of(1).trajectories, **other)]})


def test_a_file_of_rows_by_different_encoders_is_refused():
    rows = [dialogue(i, 0, 1.0, grade={"similarity": 1, "encoder": name}) for i, name in enumerate("ab")]
    with pytest.raises(UserError, match="different encoders.*t1-0"):
        grader_of("f.jsonl", rows)


def test_dialogues_with_different_humans_are_mixed_only_if_asked():
    def played(name):
        human = {"name": name, "hash": "12345678"}
        rows = [dialogue(0, 0, 1.0) for _ in range(2)]
        for row in rows:
            row.dialogue_history.insert(2, {"role": "user", "content": "yes"})
            row.human = human
        return graded([rows[0], dialogue(1, 0, 0.0)], f"{name}.jsonl")  # nobody replied in the second one

    with pytest.raises(UserError, match="one .12345678. in 'a'.*two .12345678. in 'b'"):
        compare({"a": [played("one")], "b": [played("two")]})
    same = compare({"a": [played("one")], "b": [played("one")]})
    assert [row["humans"] for row in same["runs"]] == [["one (12345678)"]] * 2
    mixed = compare({"a": [played("one")], "b": [played("two")]}, mix_humans=True)
    assert [row["humans"] for row in mixed["runs"]] == [["one (12345678)"], ["two (12345678)"]]


def test_names_that_are_none_of_the_runs_are_refused():
    for given in ({"baselines": ["x"]}, {"chains": [["a", "x"]]}):
        with pytest.raises(UserError, match="'x' is none of the runs"):
            compare({"a": [run_of(1)]}, **given)


def test_a_table_is_aligned_in_every_form_and_numbers_stay_as_they_are_written():
    made = Table([["name", "number", "word"], ["a_|", "19.0", "f"], ["b\x1b[2J", "1", "%"]], 1)
    heading, rule, first, second = made.text().splitlines()
    assert heading.split() == ["name", "number", "word"] and set(rule) == {"-", " "}
    assert first.split() == ["a_|", "19.0", "f"] and first.index("19.0") + 4 == heading.index("number") + 6
    assert "\x1b" not in second
    heading, rule, row, _ = unpadded(made.markdown()).splitlines()
    assert heading == "| name | number | word |" and row == "| a_| | 19.0 | f |" and rule.count("-:|") == 1
    first, *_, last = made.latex().splitlines()
    assert (first, last) == (r"\begin{tabular}{lrl}", r"\end{tabular}")
    assert r"a\_|" in made.latex() and r"\%" in made.latex()


def test_the_tables_hold_the_runs_beside_the_papers_figures_and_the_steps():
    runs = {"zero-shot": [run_of(0, 0, 0, 1)], "SWEET_RL": [run_of(1, 1, 0, 1)]}
    comparison = compare(runs, ["zero-shot"], [["SWEET_RL", "zero-shot"]])
    paper = {"SWEET_RL": {"tests": 56.8, "success": 40.4}, "GPT-4o": {"success": 16.2}}
    of_runs, of_steps = tables(comparison, paper)
    assert [line[:4] + line[5:] for line in of_runs.cells[1:]] == [
        ["zero-shot", "1", "25.0", "25.0", "2.00", "", "", ""],
        ["SWEET_RL", "1", "75.0", "75.0", "2.00", "56.8", "40.4", "+50.0 (+0.0 to +100.0), p = 0.500, wins 75 %"],
        ["GPT-4o", "", "", "", "", "", "16.2", ""],
    ]
    assert [line[4] for line in of_runs.cells] == ["95 % interval", "0.0 to 75.0", "25.0 to 100.0", ""]
    assert of_steps.cells[1:] == [["SWEET_RL over zero-shot", "+50.0", "+0.0 to +100.0", "0.500", "75.0", "no"]]
    assert (of_runs.numbers, of_steps.numbers) == (7, 5)
    assert comparison["runs"][1]["difference_to"]["zero-shot"]["mean"] == 0.5
    assert comparison["steps"][0]["p_holm"] == 0.5
    for make, rules in ((as_text, "---"), (as_markdown, "|:---"), (as_latex, r"\midrule")):
        assert make(comparison, paper).count(rules) >= 2 and "4 tasks" in make(comparison, paper)


def test_the_command_takes_files_first_and_writes_every_format(tmp_path):
    for name, rewards in {"base": (0, 0, 1), "new": (1, 0.5, 1)}.items():
        write_rows(tmp_path / f"{name}.graded.jsonl", run_of(*rewards).trajectories)
    files = [str(tmp_path / f"{name}.graded.jsonl") for name in ("base", "new")]
    outputs = {f"{kind}_path": tmp_path / f"made.{kind}" for kind in ("output", "markdown", "latex")}
    flags = {"baselines": "base", "chains": "new>base", "paper": "table2", "settings": "3a5f (settings.json)"}
    done = call("compare_runs.py", *files, **flags, **outputs)
    assert done.code == 0, done.err
    assert "success vs base" in done.out and "new over base" in done.out and "GPT-4o" in done.out
    written = json.loads(outputs["output_path"].read_text())
    assert written["files"] == {"base": [files[0]], "new": [files[1]]} and written["seed"] == 0
    assert written["paper"]["SWEET-RL"]["success"] == 40.4 and written["settings"] == "3a5f (settings.json)"
    assert "3a5f" in outputs["markdown_path"].read_text() and "tabular" in outputs["latex_path"].read_text()
    assert "table9" in call("compare_runs.py", *files, paper="table9").err


def test_what_graded_a_file_is_read_from_its_rows_and_its_manifest(tmp_path):
    evidence = {"grade": {"failure": None, "level": "strict", "tests": []}}
    path = write_rows(tmp_path / "a.jsonl", [dialogue(0, 0, 1.0, **evidence).to_dict()])
    settings = {"timeout": 1.0, "sandbox": "strict", "num_tasks": 5}
    manifest = {"status": "finished", "settings": settings, "inputs": {}}
    (tmp_path / "a.jsonl.manifest.json").write_text(json.dumps(manifest))
    assert read_graded(str(path)).grader == {"kind": "code", "timeout": 1.0, "paper_grader": False}


def test_the_released_rules_are_known_from_the_rows_alone_and_not_mixed():
    ours, released = ({"grade": {"failure": None, "tests": [], **rules}} for rules in ({}, {"rules": "paper"}))
    files = {
        name: [graded([dialogue(0, 0, 1.0, **grade)], **grader_of(name, [dialogue(0, 0, 1.0, **grade)]))]
        for name, grade in {"a": ours, "b": released}.items()
    }
    assert compare({"b": files["b"]})["grader"] == {"kind": "code", "paper_grader": True}
    with pytest.raises(UserError, match="graded differently .paper_grader: False and True"):
        compare(files)
    with pytest.raises(UserError, match="different paper_graders, False and True .t1-0"):
        grader_of("f.jsonl", [dialogue(0, 0, 1.0, **ours), dialogue(1, 0, 1.0, **released)])


def test_the_papers_figures_are_those_of_the_paper():
    path = ROOT / "configs" / "paper" / "results.yaml"
    rows = [
        [tuple(row.values())[1:] for row in paper_results(path, name)["rows"].values()]
        for name in ("table2", "table3", "table4")
    ]
    assert len(rows[0]) == 11 and rows[0][-1] == (56.8, 40.4, 77.7, 48.2)
    assert rows[1] == [(56.8, 40.4), (45.3, 36.2), (44.0, 31.2), (4.2, 3.6)]
    assert rows[2] == [(48.0, 35.0), (45.5, 31.9), (56.7, 41.8), (60.2, 45.6)]
    assert paper_results(path, "figure3a")["points"][0]["success"] == 44.3


def test_runs_on_different_tasks_are_refused_whichever_has_more():
    few, many = run_of(1, 1), run_of(1, 1, 0)
    for one, other in ((few, many), (many, few)):
        with pytest.raises(UserError, match="1 are .* t2"):
            compare({"a": [one], "b": [other]})


def shifted(*shares):
    """A run of seeds: in each, this share of the 12 tasks is solved."""
    return [run_of(*[1] * round(12 * share), *[0] * (12 - round(12 * share))) for share in shares]


def test_runs_of_several_seeds_are_paired_by_seed_and_tested_over_seeds_and_tasks():
    comparison = compare({"a": shifted(0.75, 1.0), "b": shifted(0.25, 0.25)}, chains=[["a", "b"]])
    (step,) = comparison["steps"]
    differences = np.array([[0] * 3 + [1] * 6 + [0] * 3, [0] * 3 + [1] * 9], dtype=float)
    assert (step["seeds"], step["difference"]["mean"]) == (2, pytest.approx(0.625))
    assert step["difference"]["p"] == pytest.approx(two_level_p(differences))
    assert step["p_tasks"] == 2 / 2**9  # nine tasks differ, all one way
    # 6 and 9 wins of 12, the rest ties
    assert step["wins"]["mean"] == pytest.approx((0.75 + 0.875) / 2)


def test_a_difference_that_holds_on_these_tasks_but_not_over_the_seeds_says_too_few_seeds():
    comparison = compare({"a": shifted(1.0, 0.25, 1.0), "b": shifted(0.25, 0.25, 0.25)}, chains=[["a", "b"]])
    (step,) = comparison["steps"]
    assert step["p_tasks"] < 0.05 < step["p_holm"] and step["significant"] == "too few seeds"
    assert "too few seeds" in as_text(comparison) and "bootstrap over seeds and tasks" in as_text(comparison)
    clear = compare({"a": shifted(1, 1, 1), "b": shifted(0.1, 0.2, 0.1)}, chains=[["a", "b"], ["b", "a"]])
    assert [step["significant"] for step in clear["steps"]] == ["yes", "the reverse"]


def test_one_seed_or_different_numbers_of_seeds_are_compared_over_tasks_and_it_is_said():
    one = compare({"a": shifted(1.0), "b": shifted(0.5)}, ["b"])
    assert "One seed per run" in as_text(one) and "sign-flip test over tasks" in as_text(one)
    uneven = compare({"a": shifted(1.0, 1.0), "b": shifted(0.5)}, ["b"])
    difference, _ = against(uneven, "a", "b")
    assert difference["p"] == 2 / 2**6 and difference["seeds"] == 1
    assert "Different numbers of seeds, compared over tasks only: a and b." in as_text(uneven)
    assert "Different numbers" not in as_text(compare({"a": shifted(1.0, 0.5), "b": shifted(0.5, 0.5)}, ["b"]))


def test_a_file_counts_once_as_a_seed_of_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = (write_rows(tmp_path / f"{n}.jsonl", run_of(n).trajectories) for n in (0, 1))
    for seeds in (f"{first}+{first}", f"{first}+{second}+0.jsonl"):
        with pytest.raises(UserError, match="give each file once"):
            compare_files(ComparisonSettings(runs=f"S={seeds},B={second}"))
    compare_files(ComparisonSettings(runs=f"S={first}+{second},B={second}"))  # two runs may share a file
