"""The report of a run folder: its figures, what is missing, which tasks are shown, and that all text stays text."""

import dataclasses
import json
import re
import subprocess
import sys

import pytest

from sweet_rl.evaluation.compare import compare
from sweet_rl.evaluation.graded_file import read_graded
from sweet_rl.runs.errors import UserError
from sweet_rl.viewer.report import ReportSettings, report_page, write_report
from sweet_rl.viewer.report_charts import Chart, Series, tag, ticks
from sweet_rl.viewer.report_dialogues import choose, grouped, settings_of_credit, side_by_side
from sweet_rl.viewer.report_figures import at_costs, charts, cost_points, costs
from sweet_rl.viewer.report_folder import RunFolder
from tests.support.command_line import ROOT, write_rows
from tests.support.dialogues import graded
from tests.support.hostile_texts import HOSTILE
from tests.unit.viewer.test_page import Elements, policy_of, sha256

RUNS = {"zero_shot": "zero-shot", "dpo": "multi-turn DPO", "sweet": "SWEET-RL"}


def manifest(path, inputs=(), status="finished", **more):
    """Write the manifest of an output (a file, or a folder that is made)."""
    place = path.with_name(path.name + ".manifest.json") if path.suffix else path / "manifest.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    content = {"status": status, "settings": {}, "inputs": {str(name): "" for name in inputs}, "started": "2026"}
    place.write_text(json.dumps(content | {"versions": {"python": "3"}} | more), encoding="utf-8")
    return path


def trained(path, dataset, log=(), **more):
    """A training with its log, of 10 steps and 7 CPU seconds."""
    settings = {"learning_rate": 1e-4, "pretrain": "mini", "dataset": str(dataset)}
    summary = {"pairs": 3, "steps": 10, "seconds": 5.0}
    manifest(path, [dataset], settings=settings, summary=summary, cpu_seconds=7.0, **more)
    write_rows(path / "training_log.jsonl", log)
    return path


def make_run(folder, dialogues=None):
    """The folder of a run with three evaluated agents on six tasks: solved are 6, 3 and then 5 of them."""
    solved, not_solved = graded()[::2], graded()[1::2]
    collected = manifest(folder / "trajectories.jsonl", settings={"agent_model": "mini", "env_model": "mini"},
                         summary={"dialogues": 40}, cpu_seconds=3.0)  # fmt: skip
    collected.write_text("")
    rewarded = manifest(folder / "rewarded.jsonl", [collected], cpu_seconds=1.0)
    rewarded.write_text("")
    log = [{"step": 5, "loss": 0.7, "accuracy": 0.5}, {"step": 10, "loss": 0.4, "accuracy": 0.75}]
    agents = {name: trained(folder / name, rewarded, log) for name in ("dpo", "sweet")}
    for (name, _), count in zip(RUNS.items(), (0, 3, 5), strict=True):
        rows = dialogues or [dataclasses.replace(t, id="") for t in (*solved[:count], *not_solved[count:])]
        rows = [dataclasses.replace(row, ending="turn_limit", reward=row.reward or 0.0) for row in rows]
        played = manifest(folder / f"{name}.test.jsonl", [agents[name]] if name in agents else [],
                          settings={"agent_model": "mini", "env_model": "mini"})  # fmt: skip
        played.write_text("")
        write_rows(manifest(folder / f"{name}.graded.jsonl", [played]), rows)
    return folder


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "run")


def test_the_table_is_that_of_compare_runs(run):
    files = {name: [read_graded(str(run / f"{stem}.graded.jsonl"))] for stem, name in RUNS.items()}
    expected = compare(files, ["zero-shot", "multi-turn DPO"])
    table = RunFolder(run).tables["Results"]
    assert {key: table[key] for key in expected} == expected
    page = report_page(RunFolder(run), critic=None)
    assert f"SWEET-RL: {100 * expected['runs'][2]['success']['mean']:.1f} %" in re.sub("<.*?>", "", page)
    cells = re.findall(r"<td><b>([\d.]+)</b>", page)
    assert cells == [f"{100 * row['success']['mean']:.1f}" for row in expected["runs"]] == ["0.0", "50.0", "83.3"]


def test_figures_that_compare_runs_has_written_are_taken_as_they_are(run):
    table = RunFolder(run).tables["Results"]
    table["runs"][2]["success"]["mean"] = 0.625
    (run / "results.json").write_text(json.dumps(table))
    assert "SWEET-RL: 62.5 %" in re.sub("<.*?>", "", report_page(RunFolder(run), critic=None))


def test_a_table_that_is_not_one_is_named(run):
    for content in ("{", "[]", '{"measure": "success", "runs": []}'):
        (run / "results.json").write_text(content)
        with pytest.raises(UserError, match="results.json"):
            report_page(RunFolder(run))


def test_dialogues_outside_the_folder_are_not_read(run, tmp_path):
    table = RunFolder(run).tables["Results"]
    secret = str(write_rows(tmp_path / "secret.jsonl", graded()))
    table["files"]["SWEET-RL"] = [secret, str(run / "x" / ".." / ".." / "secret.jsonl"), "/elsewhere/dpo.graded.jsonl"]
    (run / "results.json").write_text(json.dumps(table))
    assert RunFolder(run).tables["Results"]["files"]["SWEET-RL"] == [str(run / "dpo.graded.jsonl")]


def test_dialogues_are_found_however_the_table_names_them(run, monkeypatch):
    table = RunFolder(run).tables["Results"]
    for folder, prefix in ((".", ""), ("..", "run/"), ("..", f"{run}/"), ("..", "moved/from/run/")):
        monkeypatch.chdir(run / folder)
        files = {name: [f"{prefix}{stem}.graded.jsonl"] for stem, name in RUNS.items()}
        (run / "results.json").write_text(json.dumps(table | {"files": files}))
        found = RunFolder(run).tables["Results"]["files"]
        assert found == {name: [str(run / f"{stem}.graded.jsonl")] for stem, name in RUNS.items()}


def test_costs_are_those_of_all_steps_behind_an_agent(run):
    costs = {point["name"]: list(point["cost"].values()) for point in cost_points(RunFolder(run).tables["Results"])}
    assert costs == {"zero-shot": [0, 0, 0], "multi-turn DPO": [40, 10, 11], "SWEET-RL": [40, 10, 11]}
    moved = run.rename(run.parent / "moved")
    assert cost_points(RunFolder(moved).tables["Results"]) == []


def test_an_unfinished_run_names_what_is_missing_and_the_next_step(run):
    trained(run / "rft", run / "rewarded.jsonl")
    trained(run / "critic", run / "rewarded.jsonl", status="running")
    missing = [(number, script) for number, _, script in RunFolder(run).missing]
    ranking = [("4", "sample_best_of_n"), ("5", "rank_best_of_n"), ("6", "generate_random_pairs_from_ranks")]
    assert missing == [("3", "train_dpo"), *ranking, ("8", "evaluate_code"), ("8", "compare_runs")]
    assert "Next is scripts/train_dpo.py" in report_page(RunFolder(run), critic=None)


def test_a_run_without_evaluation_still_has_a_page(tmp_path):
    trained(tmp_path / "dpo", tmp_path / "pairs.jsonl", [{"step": 1, "loss": 0.5}])
    page = report_page(RunFolder(tmp_path))
    assert "Nothing is evaluated yet" in page and 'id="trainings"' in page and 'id="side-by-side"' not in page


def test_a_folder_that_holds_no_run_is_refused(run):
    for folder, cause in ((run / "none", "no folder"), (run / "dpo", "holds no run"), (run.parent, str(run))):
        with pytest.raises(UserError, match=re.escape(cause)):
            RunFolder(folder)


def test_seeds_of_dodo_are_one_run_each_and_the_first_ones_trainings_are_shown(tmp_path):
    for seed in (0, 1):
        make_run(tmp_path / f"seed{seed}")
    folder = RunFolder(tmp_path)
    assert [row["seeds"] for row in folder.tables["Results"]["runs"]] == [2, 2, 2]
    assert [output.name for output in folder.trainings] == ["seed0/dpo", "seed0/sweet"]


def test_tasks_are_grouped_by_who_solved_them_and_taken_in_their_order():
    def rewards(*values):
        return {f"t{number}": dataclasses.replace(graded()[0], reward=value) for number, value in enumerate(values)}

    runs = [rewards(0, 0, 0, 1, 0, 0, 1), rewards(0, 1, 0, 1, 0, 1, 0), rewards(1, 1, 0, 1, 1, 0, 1)]
    groups = grouped(["A", "B", "C"], runs, "success")
    assert groups == {
        "Solved by C only": ["t0", "t4"],
        "Solved by B and C": ["t1"],
        "Solved by A and C": ["t6"],
        "Solved by B only": ["t5"],
        "Solved by none": ["t2"],
        "Solved by all": ["t3"],
    }
    assert choose(groups) == groups
    assert choose({"a": ["1", "2", "3"], "b": ["4"]}) == {"a": ["1", "2"], "b": ["4"]}
    many = {str(size): list(map(str, range(size))) for size in (1, 9, 3, 4, 5, 6, 7, 8, 2)}
    assert [label for label, tasks in choose(many).items() if tasks] == ["9", "3", "4", "5", "6", "7", "8", "2"]
    half = [rewards(0.2, 0.5), rewards(0.4, 0.5)]
    assert grouped(["A", "B"], half, "reward") == {"Best: B only": ["t0"], "Best: all": ["t1"]}
    four = grouped(["A", "B", "C", "D"], [rewards(0, 1), *[rewards(1, 1)] * 2, rewards(1, 0)], "success")
    assert list(four) == ["Solved by all but A", "Solved by all but D"]


def test_all_four_agents_of_the_recipe_have_their_dialogues_shown(run):
    folder = RunFolder(run)
    table = folder.tables["Results"]
    table["files"]["rejection fine-tuning"] = table["files"]["multi-turn DPO"]
    shown = side_by_side(folder, table, None)
    assert shown["names"] == ["zero-shot", "rejection fine-tuning", "multi-turn DPO", "SWEET-RL"]


def test_the_charts_of_cost_have_the_range_of_the_trained_agents(run):
    shown = str(costs(RunFolder(run).tables))
    assert "<figure" not in shown and "A point per" not in shown  # both trained agents cost the same here
    trained(run / "sweet", run / "rewarded.jsonl")
    manifest(run / "sweet", [run / "rewarded.jsonl"], settings={"learning_rate": 1}, summary={"steps": 40})
    table = RunFolder(run).tables["Results"]
    for name, low in {"zero-shot": 0.0, "multi-turn DPO": 0.82, "SWEET-RL": 0.9}.items():
        row = next(row for row in table["runs"] if row["name"] == name)
        row["success"] = {"mean": low + 0.0625, "low": low, "high": low + 0.1}
    text = "".join(costs({"Results": table}))
    assert 'aria-label="success % against optimiser steps: multi-turn DPO 88.2 at 10; SWEET-RL 96.2 at 40"' in text
    assert re.findall(r'class="tick end">([\d.]+)<', text)[:2] == ["80", "85"]
    assert "The untrained agent, at 6.2 %, is outside of the charts." in text


def test_without_a_critic_dialogues_have_no_credit_and_the_page_says_so(run):
    folder = RunFolder(run)
    shown = side_by_side(folder, folder.tables["Results"])
    assert "no trained critic" in shown["credit"] and shown["names"] == list(RUNS.values())
    assert not any("credit" in message for views in shown["tasks"] for view in views for message in view["messages"])


def test_credit_has_the_reference_of_the_ranking_computed_anew():
    ranking = {"critic_type": "log_ratio", "reference": "sampled", "normalize": "turn", "model_id": "x", "engine": None}
    expected = {"critic_type": "log_ratio", "reference": "seed_without_c", "normalize": "turn", "model_id": "critic"}
    assert settings_of_credit("critic", ranking) == expected
    assert settings_of_credit("critic", {}) == {"model_id": "critic"}


def test_a_page_without_credit_is_made_without_torch(run):
    code = "import sys; from sweet_rl.viewer.report import *; write_report(ReportSettings(sys.argv[1]))"
    code += "; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code, str(run)], cwd=ROOT).returncode == 0


def test_a_report_replaces_a_report_and_nothing_else(run, tmp_path):
    assert write_report(ReportSettings(str(run), critic=None)) == run / "report.html"
    before = (run / "report.html").read_bytes()
    write_report(ReportSettings(str(run), critic=None))
    assert (run / "report.html").read_bytes() == before
    other = tmp_path / "other.html"
    other.write_text("mine")
    with pytest.raises(UserError):
        write_report(ReportSettings(str(run), str(other), critic=None))
    assert other.read_text() == "mine"


def test_names_commands_and_figures_are_text_whatever_they_spell(run):
    known = {tag for tag, _ in Elements(report_page(RunFolder(run), critic=None)).tags}
    table = RunFolder(run).tables["Results"]
    row, gap = table["runs"][2], table["runs"][2]["difference_to"]["zero-shot"]
    texts = list(HOSTILE.values())
    gaps = dict.fromkeys(texts, gap)
    rows = [row | {"name": f"SWEET {text}", "difference_to": gaps} for text in texts]
    files = dict.fromkeys([*texts, *(row["name"] for row in rows)], [])
    (run / "results.json").write_text(json.dumps(table | {"runs": rows, "files": files, "baselines": texts}))
    for number, text in enumerate(texts):
        log = [{"step": 1, "loss": 1.0}]
        trained(run / f"critic_{number}", run / f"{text[:40]}.jsonl", log, command=f"python {number} {text}")
        manifest(run / f"{number}.jsonl", settings={text: text}, versions={"torch": text}).write_text("")
    page = report_page(RunFolder(run), critic=None)
    found = Elements(page)
    assert {tag for tag, _ in found.tags} - known == {"button"}
    assert len(found.raw["script"]) == len(found.raw["style"]) == 1
    assert len(re.findall("<script", page)) == len(re.findall("</script", page))
    names = {attribute for _, attributes in found.tags for attribute in attributes}
    assert not any(attribute.startswith("on") or attribute == "style" for attribute in names)
    assert not re.search("[\ud800-\udfff\x00-\x08\u202a-\u202e\u2066-\u2069]", page)
    copied = [attributes["data-text"] for _, attributes in found.tags if "data-text" in attributes]
    assert len(copied) == len(texts) + 1 == sum(tag == "button" for tag, _ in found.tags)
    assert copied[0].split("\n") == copied[1:]


def test_the_policy_allows_the_page_its_own_script_and_style_alone(run):
    page = report_page(RunFolder(run), critic=None)
    (script,), (style,) = Elements(page).raw["script"], Elements(page).raw["style"]
    policy = policy_of(page)
    assert policy["default-src"] == policy["connect-src"] == policy["trusted-types"] == ["'none'"]
    assert policy["script-src"] == [sha256(script)] and policy["style-src"] == [sha256(style)]
    addresses = [a[key] for _, a in Elements(page).tags for key in ("src", "href") if key in a]
    assert all(address == "data:," or address.startswith("#") for address in addresses)
    assert graded()[0].dialogue_history[1]["content"] not in page


def test_a_text_is_escaped_and_an_element_is_not():
    assert tag("p", "<b>", [tag("b", "&"), None], class_='"') == '<p class="&quot;">&lt;b&gt;<b>&amp;</b></p>'


@pytest.mark.parametrize(
    "low, high", [(0, 1), (0.5251, 0.63), (0, 64), (-3, 2), (7, 7), (0, 0), (1e-7, 2e-7), (0, 1e9)]
)
def test_ticks_are_a_few_round_numbers_around_the_values(low, high):
    found = ticks(low, high)
    assert 2 <= len(found) <= 6 and found[0] <= low and found[-1] >= high
    steps = {round((b - a) / (found[1] - found[0]), 6) for a, b in zip(found, found[1:], strict=False)}
    assert steps == {1.0}


def test_points_and_intervals_are_where_their_values_are():
    drawn = Chart([Series("a", [(0, 50, 25, 75), (10, 100, 100, 100)])], "x", "y", True).figure("title")
    assert re.findall(r"translate\((.*?)\)", drawn) == ["38.0,97.0", "316.8,12.0"]  # 10 of 10.4, of 290 pixels
    assert re.findall(r'y1="(\S+)" y2="(\S+)" class="whisker"', drawn) == [("139.5", "54.5")]


def test_marks_of_one_place_stand_side_by_side_and_a_number_of_steps_is_whole():
    point = (1, 0.5, 0.5, 0.5)
    drawn = Chart([Series("a", [point]), Series("b", [point], beside=1)], "steps", "y").figure("t")
    left, right = (float(x) for x in re.findall(r"translate\(([\d.]+),", drawn))
    assert right == left + 10
    assert re.findall(r'class="tick middle">([\d.]+)<', drawn) == ["0", "1"]
    shares = Chart([Series("a", [(0.5, 1, 1, 1), (1, 1, 1, 1)])], "share", "y").figure("t")
    assert "0.5" in re.findall(r'class="tick middle">([\d.]+)<', shares)


def test_agents_of_one_cost_are_apart_only_where_their_intervals_overlap():
    shares = {"a": (50, 40, 60), "b": (55, 45, 65), "c": (90, 85, 95), "d": (58, 50, 66)}
    points = [{"name": name, "cost": {"steps": 9}, "percent": percent} for name, percent in shares.items()]
    assert [series.beside for series in at_costs(points, "steps")] == [0, 1, 0, 2]


def test_a_loss_that_is_no_number_is_left_out_of_the_chart(tmp_path):
    log = [{"step": 1, "loss": 0.5}, {"step": 2, "loss": float("nan")}, {"step": 3, "loss": 0.25, "eval_loss": 0.3}]
    trained(tmp_path / "dpo", "pairs.jsonl", log)
    (drawn,) = charts(RunFolder(tmp_path).trainings[0])
    assert re.findall(r"<title>(.*?)</title>", drawn) == ["0.5 at 1", "0.25 at 3", "held out 0.3 at 3"]
